package scheduler

import (
	"berth/fleet"
	"berth/scheduler/capacity"
)

// cost orders the places that would do, the least first; equal costs go to the host that comes first by name. What the operator asked for in
// words (prefer, spread) goes before what keeps the fleet whole: a node already broken into, the tightest node or card, and of whole nodes the one in the fabric that has the fewest left, so that whole nodes and whole fabrics stay free.
type cost struct {
	disliked int   // preferred labels that do not match
	near     int   // replicas of the same model nearby
	breaks   bool  // breaks into a whole node
	left     int64 // cards, or bytes of the card, that stay free beside it
	whole    int   // whole nodes in the fabric
}

func (a cost) less(b cost) bool {
	switch {
	case a.disliked != b.disliked:
		return a.disliked < b.disliked
	case a.near != b.near:
		return a.near < b.near
	case a.breaks != b.breaks:
		return b.breaks
	case a.left != b.left:
		return a.left < b.left
	default:
		return a.whole < b.whole
	}
}

func (f *finder) cost(h *capacity.Host, left int64) cost {
	c := cost{disliked: f.disliked(h.Node), near: f.spread.near(h.Node), left: left}
	if h.Whole() {
		c.breaks = true
		if h.Fabric != "" { // no gang can use an unknown fabric, so nothing is lost there
			c.whole = h.WholeInFabric()
		}
	}
	return c
}

func (f *finder) disliked(n *fleet.Node) int {
	count := 0
	for key, want := range f.spec.Placement.Prefer {
		if have, ok := n.Label(key); !ok || have != want {
			count++
		}
	}
	return count
}

// spread counts the replicas of one model by node and by the labels that it is to be spread over.
type spread struct {
	keys   []string
	counts map[[2]string]int // key and value → replicas
}

func newSpread(m *capacity.Map, keys []string, same []*fleet.Replica) spread {
	s := spread{keys: keys, counts: map[[2]string]int{}}
	for _, r := range same {
		if r.State.Live() {
			s.add(m, r.Shards)
		}
	}
	return s
}

func (s spread) add(m *capacity.Map, shards []fleet.Shard) {
	for _, shard := range shards {
		h := m.Host(shard.Node)
		if h == nil {
			continue
		}
		for _, key := range s.keys {
			s.counts[[2]string{key, spreadValue(h.Node, key)}]++
		}
	}
}

func (s spread) near(n *fleet.Node) int {
	sum := 0
	for _, key := range s.keys {
		sum += s.counts[[2]string{key, spreadValue(n, key)}]
	}
	return sum
}

func spreadValue(n *fleet.Node, key string) string {
	if key == "node" {
		return n.Name
	}
	v, _ := n.Label(key)
	return v
}
