package frag

import (
	"fmt"
	"testing"

	"berth/fleet"
	"berth/scheduler/capacity"
)

// host is a map of one node with cards of 10 GiB.
func host(gpus, cpus int) (*capacity.Map, *capacity.Host) {
	n := &fleet.Node{Name: "n", Instance: 1, Inventory: fleet.Inventory{CPUs: cpus, Memory: fleet.TiB}}
	for i := range gpus {
		n.Inventory.GPUs = append(n.Inventory.GPUs, fleet.GPU{UUID: fmt.Sprint(i), Index: i, Class: "x", Memory: 10 * fleet.GiB, Health: fleet.Healthy})
	}
	m := capacity.New([]*fleet.Node{n}, nil, nil)
	return m, m.Hosts[0]
}

func whole(gpus, cpus int) fleet.PlacementSpec {
	return fleet.PlacementSpec{Nodes: 1, GPUsPerNode: gpus, CPUs: cpus}
}

func part(share fleet.Bytes, cpus int) fleet.PlacementSpec {
	return fleet.PlacementSpec{Nodes: 1, GPUShare: share, CPUs: cpus}
}

func anywhere(Shape, *fleet.Node) bool { return true }

func TestLossOfAnEmptyHost(t *testing.T) {
	for what, c := range map[string]struct {
		gpus, cpus int
		asked      fleet.PlacementSpec
		want       int64
	}{
		"all of it is of use":                    {8, 64, whole(1, 8), 0},
		"a remainder of cards":                   {8, 64, whole(3, 8), 2000},
		"a remainder of each card":               {4, 64, part(3*fleet.GiB, 1), 400},
		"CPUs run out before the cards":          {8, 24, whole(1, 8), 5000},
		"CPUs run out before the parts":          {2, 2, part(5*fleet.GiB, 1), 1000},
		"nothing fits: three times":              {4, 64, whole(8, 8), 12000},
		"no CPUs at all":                         {4, 4, whole(1, 8), 12000},
		"a class that it has not":                {4, 64, fleet.PlacementSpec{Nodes: 1, GPUsPerNode: 1, Classes: []string{"y"}}, 12000},
		"cards too small":                        {4, 64, fleet.PlacementSpec{Nodes: 1, GPUsPerNode: 1, GPUMemory: 11 * fleet.GiB}, 12000},
		"nothing that leaves fragments is asked": {4, 64, fleet.PlacementSpec{Nodes: 1, CPUs: 8}, 0},
	} {
		m, h := host(c.gpus, c.cpus)
		if got := NewMeter(m, []Asked{{Shape{Placement: c.asked}, 1}}, anywhere).Loss(h); got != c.want {
			t.Errorf("%s: %d, want %d", what, got, c.want)
		}
	}
}

// What Adds foretells is what Loss says once the claim is made, for every kind of claim.
func TestAddsIsTheDifference(t *testing.T) {
	asked := []Asked{{Shape{Placement: whole(1, 8)}, 5}, {Shape{Placement: part(3*fleet.GiB, 2)}, 3}, {Shape{Placement: whole(4, 16)}, 1}, {Shape{Placement: part(8*fleet.GiB, 1)}, 2}}
	for what, p := range map[string]fleet.PlacementSpec{"one": whole(1, 4), "three": whole(3, 12), "part": part(2*fleet.GiB, 1), "CPUs": {Nodes: 1, CPUs: 40}} {
		m, h := host(4, 48)
		f := NewMeter(m, asked, anywhere)
		before := f.Loss(h)
		shard := fleet.Shard{Node: "n"}
		var cards []int
		for i := range max(p.GPUsPerNode, min(1, int(p.GPUShare))) {
			cards = append(cards, i)
			shard.Claims = append(shard.Claims, fleet.Claim{GPU: fmt.Sprint(i), Share: p.GPUShare})
		}
		adds := f.Adds(h, &p, cards)
		if f.Loss(h) != before {
			t.Errorf("%s: to ask has changed the answer", what)
		}
		m.Claim([]fleet.Shard{shard}, &p)
		if got := f.Loss(h) - before; got != adds {
			t.Errorf("%s: foretold %d, is %d", what, adds, got)
		}
	}
}

func TestANodeThatTakesNothingLosesNothing(t *testing.T) {
	m, h := host(4, 64)
	f := NewMeter(m, []Asked{{Shape{Placement: whole(8, 8)}, 1}}, anywhere)
	if f.Loss(h) == 0 {
		t.Fatal("nothing fits there")
	}
	m.SetReady(h, false)
	if got := f.Loss(h); got != 0 {
		t.Errorf("%d", got)
	}
}

func TestTopKeepsTheMostFrequent(t *testing.T) {
	var asked []Asked
	for i := range Most + 10 {
		asked = append(asked, Asked{Shape{Placement: whole(1, i)}, i})
	}
	top := Top(asked)
	if len(top) != Most || top[0].Times != Most+9 || top[Most-1].Times != 10 {
		t.Errorf("%d shapes, the first %d times, the last %d", len(top), top[0].Times, top[len(top)-1].Times)
	}
}

func TestKeyTellsShapesApart(t *testing.T) {
	same := func(a, b fleet.PlacementSpec) bool { return Shape{Placement: a}.Key() == Shape{Placement: b}.Key() }
	a := fleet.PlacementSpec{Nodes: 2, GPUsPerNode: 8, Classes: []string{"x", "y"}}
	b := fleet.PlacementSpec{Nodes: 4, GPUsPerNode: 8, Classes: []string{"y", "x"}, Prefer: map[string]string{"rack": "1"}}
	if !same(a, b) {
		t.Error("a shard of either asks a node for the same")
	}
	b.Require = map[string]string{"zone": "a"}
	if same(a, b) || same(whole(1, 1), whole(1, 2)) || same(whole(1, 1), part(1, 1)) {
		t.Error("they ask for different things")
	}
}
