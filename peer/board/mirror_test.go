package board

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"berth/fleet"
	"berth/fleet/wire"
	"berth/fsm"
)

// pair is a leader and a follower over one state, with replicas that are ready.
type pair struct {
	leader, follower *bench
	replicas         []string
	seq              uint64
	stamp            *wire.Stamp
}

func newPair(t *testing.T, replicas int) *pair {
	p := &pair{leader: newBench(t, "peer-1")}
	b := p.leader
	b.apply(fsm.NodeRegister{Registration: wire.Registration{
		Version: wire.Version, Name: "n1", ID: "id-n1", Instance: 1, Address: "192.0.2.17:7310", Level: 1, Inventory: inventory(replicas),
		Engines: []fleet.EngineOffer{{Driver: "sim", Hub: true}},
	}})
	spec := fleet.DefaultedSpec()
	spec.Version, spec.Kind, spec.Name = fleet.SpecVersion, "model", "m"
	spec.Engine = fleet.EngineSpec{Driver: "sim", Weights: "w"}
	spec.Placement.GPUsPerNode = 1
	spec.Replicas = fleet.ReplicaCount{Min: replicas, Max: replicas}
	b.apply(fsm.ModelApply{Spec: spec})
	var plan fleet.Plan
	for i := range replicas {
		shard := fleet.Shard{Node: "n1", Claims: []fleet.Claim{{GPU: fmt.Sprint("g", i)}}}
		plan.Items = append(plan.Items, fleet.PlanItem{Place: &fleet.PlaceItem{Model: "m", Generation: 1, Shards: []fleet.Shard{shard}}})
	}
	b.apply(fsm.PlanApply{Plan: plan, Term: 1})
	for r := range b.machine.State().Replicas() {
		p.replicas = append(p.replicas, r.ID)
	}
	p.follower = &bench{t: t, machine: b.machine, Board: New(Config{Peer: "peer-2", State: b.machine.State, Clock: b.Clock, Log: b.Log})}
	return p
}

func inventory(cards int) fleet.Inventory {
	inv := fleet.Inventory{Fabric: "f"}
	for i := range cards {
		inv.GPUs = append(inv.GPUs, fleet.GPU{UUID: fmt.Sprint("g", i), Index: i, Class: "c", Memory: fleet.GiB, Health: fleet.Healthy})
	}
	return inv
}

// beat is a heartbeat with the readings of some replicas.
func (p *pair) beat(ids []string, used func(id string) *float64) {
	p.seq++
	h := beat("n1", 1, p.seq)
	for _, id := range ids {
		ready := 7200.0
		h.Readings = append(h.Readings, wire.Reading{Replica: id, Shim: 1, Engine: 1, Number: p.seq, ReadyAge: &ready, UseAge: used(id), Stamp: p.stamp})
	}
	p.stamp = p.leader.Heartbeat(h).Stamp
}

func (p *pair) relay(t *testing.T, took time.Duration) wire.RelayAnswer {
	t.Helper()
	a, err := p.leader.Relay(p.follower.Outgoing(nil))
	if err != nil {
		t.Fatal(err)
	}
	p.follower.Delivered(a, took)
	return a
}

func never(string) *float64 { return nil }

// A follower that hears only what is news knows what one that heard everything would: the leader's own words at the moment of the newest relay.
func TestAFollowerThatHearsTheNewsKnowsWhatTheLeaderKnows(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 1))
	synctest.Test(t, func(t *testing.T) {
		p := newPair(t, 12)
		_, end := p.leader.Lead(1)
		defer end()
		p.beat(nil, never)
		for range 300 {
			some := slices.Clone(p.replicas)
			rng.Shuffle(len(some), func(i, j int) { some[i], some[j] = some[j], some[i] })
			p.beat(some[:rng.IntN(len(some))], func(string) *float64 {
				if age := rng.Float64() * 900; rng.IntN(3) > 0 {
					return &age
				}
				return nil
			})
			time.Sleep(time.Duration(rng.IntN(1500)) * time.Millisecond)
			if rng.IntN(3) == 0 {
				continue // this relay is lost
			}
			p.relay(t, 0)
			p.same(t, 0)
			p.same(t, time.Duration(rng.IntN(900))*time.Second)
		}
	})
}

func (p *pair) same(t *testing.T, quiet time.Duration) {
	t.Helper()
	want, got := p.leader.Observed(), p.follower.Observed()
	near := func(a, b float64) bool { return a-b < rounding && b-a < rounding }
	if !maps.EqualFunc(want.Nodes, got.Nodes, near) || want.Interval != got.Interval || want.ListeningSeconds != got.ListeningSeconds {
		t.Fatalf("the leader has %+v\nthe follower %+v", want, got)
	}
	compare(t, rowsOf(want.Idle, true), rowsOf(got.Idle, true))
	compare(t, rowsOf(p.leader.Brief(quiet).Idle, false), rowsOf(p.follower.Brief(quiet).Idle, false))
}

// rowsOf gives rows by replica; of a replica that nobody was heard of there may be none.
func rowsOf(rows []wire.IdleView, heardOnly bool) map[string]wire.IdleView {
	out := map[string]wire.IdleView{}
	for _, r := range rows {
		if !heardOnly || r.InFlight >= 0 || r.IdleSeconds >= 0 {
			r.Why = ""
			out[r.ID] = r
		}
	}
	return out
}

// rounding is of ages on the wire, in seconds.
const rounding = 1e-6

func compare(t *testing.T, want, got map[string]wire.IdleView) {
	t.Helper()
	for id, w := range want {
		g, ok := got[id]
		near := func(a, b float64) bool { return a-b < rounding && b-a < rounding }
		if !ok || g.Model != w.Model || g.GPUs != w.GPUs || g.InFlight != w.InFlight || !near(g.IdleSeconds, w.IdleSeconds) || !near(g.QuietSeconds, w.QuietSeconds) ||
			!near(g.AsOfSeconds, w.AsOfSeconds) {
			t.Fatalf("of %s the leader says %+v\nthe follower %+v", id, w, g)
		}
	}
	for id := range got {
		if _, ok := want[id]; !ok && got[id].QuietSeconds >= 0 {
			t.Fatalf("the follower alone knows of %s: %+v", id, got[id])
		}
	}
}

// What one relay costs is what has changed, not what there is.
func TestARelayHoldsWhatIsNews(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPair(t, 8)
		_, end := p.leader.Lead(1)
		defer end()
		p.beat(p.replicas, never)
		if a := p.relay(t, 0); len(a.Observed.Idle) != 8 || len(a.Observed.Nodes) != 1 {
			t.Fatalf("the first answer holds %d rows and %d nodes", len(a.Observed.Idle), len(a.Observed.Nodes))
		}
		if a := p.relay(t, 0); len(a.Observed.Idle)+len(a.Observed.Nodes) > 0 {
			t.Fatalf("without news: %+v", a.Observed)
		}
		p.beat(p.replicas[:2], never)
		if a := p.relay(t, 0); len(a.Observed.Idle) != 2 || len(a.Observed.Nodes) != 1 {
			t.Fatalf("after two readings: %+v", a.Observed)
		}
		restarted := New(p.follower.Config)
		if a, err := p.leader.Relay(restarted.Outgoing(nil)); err != nil || len(a.Observed.Idle) != 8 {
			t.Fatalf("a follower that has just started is told %d rows, %v", len(a.Observed.Idle), err)
		}
	})
}

// A new leader's word takes the place of all that the one before it said, also where it has said nothing yet.
func TestAWordOfAnotherTermIsForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPair(t, 3)
		_, end := p.leader.Lead(1)
		p.beat(p.replicas, never)
		p.beat(p.replicas, never)
		p.relay(t, 0)
		if o := p.follower.Observed(); len(o.Idle) != 3 || o.Idle[0].QuietSeconds < 7000 {
			t.Fatalf("the first leader's word: %+v", o.Idle)
		}
		end()
		_, end = p.leader.Lead(2)
		defer end()
		p.relay(t, 0)
		if o := p.follower.Observed(); len(o.Idle) > 0 || len(o.Nodes) > 0 || o.Term != 2 {
			t.Fatalf("of the second leader, which has heard nothing, the follower says %+v", o)
		}
	})
}

// A row that came with a slow answer counts from when it was asked for, and its replica's quiet is unknown once its proof is too old.
func TestARowGrowsOld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPair(t, 1)
		_, end := p.leader.Lead(1)
		defer end()
		p.beat(p.replicas, never)
		p.beat(p.replicas, never)
		p.relay(t, 1500*time.Millisecond)
		if r := p.follower.Observed().Idle[0]; r.AsOfSeconds != 0 || r.QuietSeconds < 7000 {
			t.Fatalf("as of the leader's word: %+v", r)
		}
		time.Sleep(4 * time.Second)
		p.relay(t, 0)
		if r := p.follower.Observed().Idle[0]; r.QuietSeconds != unknown || r.Why == "" { // 4 s, and the 1.5 that the answer may have taken
			t.Errorf("its door was heard as of 5.5 s ago: %+v", r)
		}
		if rows := p.follower.Brief(0).Idle; len(rows) > 0 {
			t.Errorf("quiet: %+v", rows)
		}
	})
}
