package capacity

import (
	"reflect"
	"testing"

	"berth/fleet"
)

func nodes() []*fleet.Node {
	card := func(uuid, class string, index int) fleet.GPU {
		return fleet.GPU{UUID: uuid, Index: index, Class: class, Memory: 80 * fleet.GiB, Health: fleet.Healthy}
	}
	return []*fleet.Node{
		{Name: "a", Instance: 1, Inventory: fleet.Inventory{Fabric: "f", CPUs: 8, Memory: fleet.GiB, GPUs: []fleet.GPU{card("a1", "x", 1), card("a0", "x", 0), card("a2", "y", 2)}}},
		{Name: "b", Instance: 1, Inventory: fleet.Inventory{Fabric: "f", GPUs: []fleet.GPU{card("b0", "x", 0)}}},
		{Name: "c", Instance: 1, Admin: fleet.Cordoned, Inventory: fleet.Inventory{Fabric: "f", GPUs: []fleet.GPU{card("c0", "x", 0)}}},
		{Name: "d", Instance: 1, Inventory: fleet.Inventory{Fabric: "f"}},
	}
}

// Claim and Release undo each other, whatever is claimed, and the counters never disagree with the cards.
func TestClaimAndReleaseUndoEachOther(t *testing.T) {
	p := &fleet.PlacementSpec{CPUs: 3, Memory: fleet.MiB}
	for name, shards := range map[string][]fleet.Shard{
		"whole":         {{Node: "a", Claims: []fleet.Claim{{GPU: "a0"}, {GPU: "a2"}}}, {Node: "b", Claims: []fleet.Claim{{GPU: "b0"}}}},
		"shared":        {{Node: "a", Claims: []fleet.Claim{{GPU: "a0", Share: fleet.GiB}}}},
		"twice":         {{Node: "b", Claims: []fleet.Claim{{GPU: "b0"}, {GPU: "b0", Share: fleet.GiB}}}},
		"released":      {{Node: "b", Released: true, Claims: []fleet.Claim{{GPU: "b0"}}}},
		"a card gone":   {{Node: "b", Claims: []fleet.Claim{{GPU: "zz"}}}},
		"a node gone":   {{Node: "z", Claims: []fleet.Claim{{GPU: "b0"}}}},
		"cordoned node": {{Node: "c", Claims: []fleet.Claim{{GPU: "c0"}}}},
	} {
		t.Run(name, func(t *testing.T) {
			m, fresh := New(nodes(), nil, nil), New(nodes(), nil, nil)
			m.Claim(shards, p)
			check(t, m)
			m.Release(shards, p)
			check(t, m)
			for i := range m.Hosts {
				m.Hosts[i].Version = 0
			}
			if !reflect.DeepEqual(m.Hosts, fresh.Hosts) {
				t.Errorf("not as before:\n%+v\n%+v", m.Hosts[0], fresh.Hosts[0])
			}
		})
	}
}

func check(t *testing.T, m *Map) {
	t.Helper()
	whole := 0
	for _, h := range m.Hosts {
		idle := map[string]int{}
		for i := range h.Cards {
			if h.Cards[i].Idle() {
				idle[h.Cards[i].Class]++
			}
		}
		if h.Idle("x") != idle["x"] || h.Idle("y") != idle["y"] || h.Idle("z") != 0 {
			t.Errorf("%s counts %d x and %d y idle; its cards say %v", h.Node.Name, h.Idle("x"), h.Idle("y"), idle)
		}
		if h.Ready && len(h.Cards) > 0 && idle["x"]+idle["y"] == len(h.Cards) {
			whole++
		}
	}
	if got := m.Host("a").WholeInFabric(); got != whole {
		t.Errorf("%d whole hosts are counted, %d are", got, whole)
	}
}

func TestWhatTakesACard(t *testing.T) {
	ns := nodes()
	ns[0].Inventory.GPUs[0].Foreign = true                            // a1
	ns[0].Unmanaged = []fleet.Unmanaged{{GPUs: []string{"a2", "zz"}}} // a2
	ns[1].Inventory.GPUs[0].Health = fleet.HealthUnknown              // b0
	m := New(ns, nil, nil)
	for i, want := range []bool{true, false, false} {
		if c := &m.Host("a").Cards[i]; c.Idle() != want || c.GPU.Index != i || (c.Room() > 0) != want {
			t.Errorf("card %d: idle %v, want %v; index %d, room %s", i, c.Idle(), want, c.GPU.Index, c.Room())
		}
	}
	if m.Host("b").Idle("x") != 0 || m.Host("b").Whole() || m.Host("d").Whole() || m.Host("c").Whole() {
		t.Error("an unknown card, no card, or a cordoned node counts as free")
	}
	h := m.Host("c")
	m.SetReady(h, true)
	if !h.Whole() || h.WholeInFabric() != 1 {
		t.Error("an uncordoned whole node is not counted")
	}
}

// A node's newer row in the place of its older one leaves the map as if it had been laid out with it from the start.
func TestRenewIsAsIfLaidOutAnew(t *testing.T) {
	p := &fleet.PlacementSpec{CPUs: 3, Memory: fleet.MiB}
	held := []*fleet.Replica{
		{Shards: []fleet.Shard{{Node: "a", Claims: []fleet.Claim{{GPU: "a0"}}}, {Node: "b", Claims: []fleet.Claim{{GPU: "b0"}}}}},
		{Shards: []fleet.Shard{{Node: "a", Claims: []fleet.Claim{{GPU: "a1", Share: fleet.GiB}}}, {Node: "b", Released: true, Claims: []fleet.Claim{{GPU: "b0"}}}}},
	}
	for name, change := range map[string]func(n *fleet.Node){
		"the same":    func(*fleet.Node) {},
		"ill":         func(n *fleet.Node) { n.Inventory.GPUs[1].Health, n.Inventory.GPUs[2].Foreign = fleet.Unhealthy, true },
		"cordoned":    func(n *fleet.Node) { n.Admin = fleet.Cordoned },
		"held":        func(n *fleet.Node) { n.Unmanaged = []fleet.Unmanaged{{GPUs: []string{"a2"}}} },
		"unreachable": func(n *fleet.Node) { n.Unreachable = true },
	} {
		m, ns := New(nodes(), held, func(*fleet.Replica) *fleet.PlacementSpec { return p }), nodes()
		change(ns[0])
		var claims []Claimed
		for _, r := range held {
			claims = append(claims, Claimed{r.Shards, p})
		}
		m.Renew(ns[0], claims)
		fresh := New(ns, held, func(*fleet.Replica) *fleet.PlacementSpec { return p })
		for i := range m.Hosts {
			m.Hosts[i].Version, fresh.Hosts[i].Version = 0, 0
		}
		if !reflect.DeepEqual(m.Hosts, fresh.Hosts) {
			t.Errorf("%s: not as if laid out anew:\n%+v\n%+v", name, m.Hosts[0], fresh.Hosts[0])
		}
	}
}
