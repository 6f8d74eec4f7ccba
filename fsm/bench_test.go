package fsm

import (
	"fmt"
	"testing"

	"berth/fleet"
	"berth/fleet/wire"
)

// fleetOf returns a machine with that many single-card replicas, eight a node, in plans of a hundred.
func fleetOf(b testing.TB, replicas int) (*Machine, uint64) {
	b.Helper()
	m := New()
	index := uint64(0)
	do := func(c Command) {
		index++
		if o := applyAt(b, m, index, Meta{At: 1}, c); o.Err != nil || slicesErr(o.Items) != nil {
			b.Fatal(o.Err, slicesErr(o.Items))
		}
	}
	do(ClusterCreate{ID: "c1"})
	do(ModelApply{Spec: model("m", 1, 1)})
	var p fleet.Plan
	for i := range replicas {
		node := fmt.Sprintf("n%04d", i/8)
		if i%8 == 0 {
			do(register(node, "fa", 9)) // one card more than is placed here
		}
		if p.Items = append(p.Items, placeItem("m", 1, fmt.Sprintf("%s/%d", node, i%8))); len(p.Items) == 100 || i == replicas-1 {
			do(PlanApply{Plan: p})
			p.Items = nil
		}
	}
	return m, index
}

// BenchmarkApplyPlan decodes and applies a plan of one placement in a fleet of 10,000 replicas. The replica is taken away again off the clock.
func BenchmarkApplyPlan(b *testing.B) {
	m, index := fleetOf(b, 10_000)
	b.ReportAllocs()
	b.ResetTimer()
	for i := range b.N {
		b.StopTimer()
		place, err := Encode(Meta{At: 1}, PlanApply{Plan: fleet.Plan{Items: []fleet.PlanItem{placeItem("m", 1, fmt.Sprintf("n%04d/8", i%1250))}}})
		if err != nil {
			b.Fatal(err)
		}
		b.StartTimer()
		o, err := m.Apply(index+1, place)
		b.StopTimer()
		if err != nil || slicesErr(o.Items) != nil {
			b.Fatal(err, slicesErr(o.Items))
		}
		id := fmt.Sprintf("r-1.%d.1", index+1)
		applyAt(b, m, index+2, Meta{At: 1}, ReplicaStop{Replica: id, Reason: "bench"})
		r, _ := m.State().Replica(id)
		applyAt(b, m, index+3, Meta{At: 1}, ReplicaTransitions{Node: r.Shards[0].Node, Instance: 1, Items: []wire.Transition{
			{Replica: id, Order: r.Order, Start: 1, To: wire.BecameStopped, Released: true}}})
		index += 3
		b.StartTimer()
	}
}

func BenchmarkOrders(b *testing.B) {
	m, _ := fleetOf(b, 10_000)
	b.ReportAllocs()
	for b.Loop() {
		m.State().Orders("n0500")
	}
}

func BenchmarkTable(b *testing.B) {
	m, _ := fleetOf(b, 10_000)
	b.ReportAllocs()
	for b.Loop() {
		m.State().Table()
	}
}
