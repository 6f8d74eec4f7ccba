package scheduler

import (
	"fmt"
	"testing"

	"berth/fleet"
)

// possible searches every set of nodes for room for one more replica, with rules written down here once more. It asks of a node only what the random
// fleets vary: state, label, CPUs, memory, cards.
func possible(s Snapshot, m *fleet.Model) bool {
	classes := m.Spec.Placement.Classes
	if len(classes) == 0 {
		classes = []string{h100, l40s}
	}
	for _, class := range classes {
		for set := range 1 << len(s.Nodes) {
			if holds(s, m, class, set) {
				return true
			}
		}
	}
	return false
}

func holds(s Snapshot, m *fleet.Model, class string, set int) bool {
	p := m.Spec.Placement
	count, fabric := 0, ""
	for i, n := range s.Nodes {
		if set&(1<<i) == 0 {
			continue
		}
		if count > 0 && n.Fabric() != fabric || p.Nodes > 1 && n.Fabric() == "" {
			return false
		}
		if count++; count > p.Nodes || !takes(s, m, n, class) {
			return false
		}
		fabric = n.Fabric()
	}
	return count == p.Nodes
}

func takes(s Snapshot, m *fleet.Model, n *fleet.Node, class string) bool {
	p := m.Spec.Placement
	if n.Unreachable || n.Admin != fleet.Schedulable {
		return false
	}
	for k, v := range p.Require {
		if n.Labels[k] != v {
			return false
		}
	}
	cpus, memory := n.Inventory.CPUs, n.Inventory.Memory
	for _, r := range s.Replicas {
		if i := r.Rank(n.Name); i >= 0 && !r.Shards[i].Released {
			other := specNamed(s, r.Model).Placement
			cpus -= other.CPUs
			memory -= other.Memory
		}
	}
	if p.CPUs > 0 && cpus < p.CPUs || p.Memory > 0 && memory < p.Memory {
		return false
	}
	fit := 0
	for _, g := range n.Inventory.GPUs {
		if g.Class == class && g.Memory >= p.GPUMemory && g.Health == fleet.Healthy && !g.Foreign && cardTakes(s, n, g, p.GPUShare) {
			fit++
		}
	}
	return fit >= max(1, p.GPUsPerNode)
}

func cardTakes(s Snapshot, n *fleet.Node, g fleet.GPU, share fleet.Bytes) bool {
	left := g.Memory
	for _, r := range s.Replicas {
		for _, shard := range r.Shards {
			for _, c := range shard.Claims {
				switch {
				case shard.Released || shard.Node != n.Name || c.GPU != g.UUID:
				case c.Share == 0 || share == 0:
					return false
				default:
					left -= c.Share
				}
			}
		}
	}
	return left >= share
}

func specNamed(s Snapshot, model string) fleet.ModelSpec {
	for _, m := range s.Models {
		if m.Name() == model {
			return m.Spec
		}
	}
	return fleet.ModelSpec{}
}

// On tiny fleets the planner and the exhaustive search agree on "fits or not", both ways.
func TestAgreesWithExhaustiveSearch(t *testing.T) {
	r := seeded(t)
	placed := 0
	const rounds = 20000
	for round := range rounds {
		w := newWorld(t)
		for i := range 1 + r.IntN(4) {
			n := w.node(fmt.Sprint("n", i), oneOf(r, "", "fa", "fb"), oneOf(r, h100, l40s), r.IntN(4))
			n.Labels = map[string]string{"zone": oneOf(r, "a", "b")}
			n.Admin = oneOf(r, fleet.Schedulable, fleet.Schedulable, fleet.Cordoned)
			for j := range n.Inventory.GPUs {
				g := &n.Inventory.GPUs[j]
				g.Class, g.Health = oneOf(r, g.Class, h100), oneOf(r, fleet.Healthy, fleet.Healthy, fleet.Unhealthy)
			}
			if cards := len(n.Inventory.GPUs); cards > 0 && r.IntN(2) == 0 {
				other := w.put(fmt.Sprint("r-", i), "other", n.Name, r.IntN(cards), 1)
				other.Shards[0].Claims[0].Share = oneOf(r, 0, 10*fleet.GiB, 40*fleet.GiB)
			}
		}
		m := w.model("m", oneOf(r, 1, 2, 3), 1+r.IntN(3), oneOf(r, "", h100, l40s), func(s *fleet.ModelSpec) { randomSpec(s, r) })
		want := possible(w.Snapshot, m)
		if got := len(Plan(w.Snapshot).Items) == 1; got != want {
			t.Fatalf("round %d: placed %v, possible %v; %+v", round, got, want, m.Spec.Placement)
		}
		if want {
			placed++
		}
	}
	if placed < rounds/20 || placed > rounds*19/20 {
		t.Errorf("%d of %d fit: the test says little", placed, rounds)
	}
}
