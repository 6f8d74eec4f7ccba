package scheduler

import (
	"fmt"
	"testing"

	"berth/fleet"
)

// large is a fleet of 8-card nodes in fabrics of 16.
func large(nodes int) Snapshot {
	w := newWorld(&testing.T{})
	s := w.Snapshot
	for i := range nodes {
		n := &fleet.Node{Name: fmt.Sprintf("n%05d", i), Instance: 1, Inventory: fleet.Inventory{Fabric: fmt.Sprintf("f%04d", i/16), CPUs: 64, Memory: fleet.TiB}}
		n.Engines = []fleet.EngineOffer{{Driver: "vllm", Hub: true, SpanNodes: true}}
		for j := range 8 {
			n.Inventory.GPUs = append(n.Inventory.GPUs, fleet.GPU{
				UUID: fmt.Sprintf("%s-%d", n.Name, j), Index: j, Class: h100, Memory: 80 * fleet.GiB, Health: fleet.Healthy,
			})
		}
		s.Nodes = append(s.Nodes, n)
	}
	return s
}

func wanting(name string, nodes, gpus, want int) *fleet.Model {
	spec := fleet.DefaultedSpec()
	spec.Name, spec.Engine = name, fleet.EngineSpec{Driver: "vllm", Weights: "org/m"}
	spec.Placement = fleet.PlacementSpec{Nodes: nodes, GPUsPerNode: gpus, Classes: []string{h100}}
	return &fleet.Model{Spec: spec, Generation: 1, Want: want}
}

func BenchmarkPlan(b *testing.B) {
	for _, c := range []struct {
		name  string
		model *fleet.Model
	}{
		{"nothing-to-do", wanting("m", 1, 1, 0)},
		{"one-card", wanting("m", 1, 1, 1)},
		{"one-gang", wanting("m", 2, 8, 1)},
		{"refused", wanting("m", 17, 8, 1)},
		{"5000-cards", wanting("m", 1, 1, 5000)},
		{"1000-gangs", wanting("m", 2, 8, 1000)},
	} {
		b.Run(c.name, func(b *testing.B) {
			s := large(5000)
			s.Models = []*fleet.Model{c.model}
			b.ReportAllocs()
			for b.Loop() {
				plan := Plan(s)
				if len(plan.Items) != c.model.Want && len(plan.Refusals) == 0 {
					b.Fatalf("%d items", len(plan.Items))
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(max(1, c.model.Want)), "ns/placement")
		})
	}
}
