package scheduler

import (
	"cmp"

	"berth/fleet"
	"berth/scheduler/capacity"
)

// cost orders the places that would do, the least first; equal costs go to the host that comes first by name. What the operator asked for in words
// (prefer, spread) goes first, then what is known to go wrong or to take long (cards with recent faults, weights to be fetched), then what keeps the
// fleet whole: the least room made useless for what the cluster is asked for; a node already broken into; the tightest node or card; and of whole nodes
// the one in the fabric that has the fewest left, so that whole nodes and whole fabrics stay free.
type cost struct {
	wish   wish
	waste  int64 // by how much the node's room becomes less useful; see frag.Meter
	breaks int   // 1: breaks into a whole node
	left   int64 // cards, or bytes of the card, that stay free beside it
	whole  int   // whole nodes in the fabric
}

// wish is the part of a cost that goes before the fleet's.
type wish struct {
	disliked int32 // preferred labels that do not match
	near     int32 // replicas of the same model nearby
	faulty   int32 // cards with recent faults among those taken
	cold     int32 // 1: the weights are on some node's disk, but not on this one's
}

func (w wish) compare(o wish) int {
	return cmp.Or(cmp.Compare(w.disliked, o.disliked), cmp.Compare(w.near, o.near), cmp.Compare(w.faulty, o.faulty), cmp.Compare(w.cold, o.cold))
}

func (w wish) add(o wish) wish {
	return wish{w.disliked + o.disliked, w.near + o.near, w.faulty + o.faulty, w.cold + o.cold}
}

func (c *cost) compare(o *cost) int {
	if c.wish != o.wish {
		return c.wish.compare(o.wish)
	}
	return cmp.Or(cmp.Compare(c.waste, o.waste), cmp.Compare(c.breaks, o.breaks), cmp.Compare(c.left, o.left), cmp.Compare(c.whole, o.whole))
}

// price returns the cheapest place for one shard on a host, or false when it has no room now.
func (f *finder) price(h *capacity.Host, classes []string) (place, bool) {
	best := place{card: -1}
	if !f.roomy(h) {
		return best, false
	}
	for _, class := range classes {
		if f.spec.Placement.GPUShare > 0 {
			f.priceShares(h, class, &best)
		} else {
			f.priceCards(h, class, &best)
		}
	}
	best.version = h.Version
	return best, best.host != nil
}

func (f *finder) priceCards(h *capacity.Host, class string, best *place) {
	need := f.spec.Placement.GPUsPerNode
	idle := f.idle(h, class)
	if idle < need {
		return
	}
	f.picked = f.pick(f.picked[:0], h, class, need)
	f.better(best, place{host: h, class: class, card: -1, cost: f.cost(h, int64(idle-need))})
}

func (f *finder) priceShares(h *capacity.Host, class string, best *place) {
	share := f.spec.Placement.GPUShare
	for i := range h.Cards {
		c := &h.Cards[i]
		room := c.Room()
		if !f.suits(c, class) || room < share || f.sameCardBefore(h, i) {
			continue
		}
		f.picked = append(f.picked[:0], i)
		f.better(best, place{host: h, class: class, card: i, cost: f.cost(h, int64(room-share))})
	}
}

// sameCardBefore says whether a card with a lesser index would do as well, so that this one need not be looked at.
func (f *finder) sameCardBefore(h *capacity.Host, i int) bool {
	if len(f.faults) > 0 {
		return false
	}
	c := &h.Cards[i]
	for j := range h.Cards[:i] {
		if o := &h.Cards[j]; o.Room() == c.Room() && o.Class == c.Class && o.GPU.Memory == c.GPU.Memory {
			return true
		}
	}
	return false
}

func (f *finder) better(best *place, p place) {
	if best.host == nil || p.cost.compare(&best.cost) < 0 {
		*best = p
	}
}

// cost of a shard on the picked cards of a host; left is what stays free beside it.
func (f *finder) cost(h *capacity.Host, left int64) cost {
	c := cost{left: left, wish: wish{disliked: f.disliked(h.Node), near: f.spread.near(h.Node)}}
	for _, i := range f.picked {
		if f.faults[h.Cards[i].GPU.UUID] {
			c.wish.faulty++
		}
	}
	if on := f.weights[f.spec.Name]; len(on) > 0 && !on[h.Node.Name] {
		c.wish.cold = 1
	}
	if f.meter != nil {
		c.waste = f.meter.Adds(h, &f.spec.Placement, f.picked)
	}
	if h.Whole() && len(f.picked) > 0 {
		c.breaks = 1
		if h.Fabric != "" { // no gang can use an unknown fabric, so nothing is lost there
			c.whole = h.WholeInFabric()
		}
	}
	return c
}

// pick appends the first n idle cards of a host that suit, by index; cards with recent faults only where there are no others.
func (f *finder) pick(to []int, h *capacity.Host, class string, n int) []int {
	faulty := 0
	if len(f.faults) > 0 {
		faulty = max(0, n-f.soundCards(h, class))
	}
	for i := range h.Cards {
		c := &h.Cards[i]
		if len(to) == n || !f.suits(c, class) || !c.Idle() {
			continue
		}
		if f.faults[c.GPU.UUID] {
			if faulty == 0 {
				continue
			}
			faulty--
		}
		to = append(to, i)
	}
	return to
}

func (f *finder) soundCards(h *capacity.Host, class string) int {
	n := 0
	for i := range h.Cards {
		if c := &h.Cards[i]; f.suits(c, class) && c.Idle() && !f.faults[c.GPU.UUID] {
			n++
		}
	}
	return n
}

func (f *finder) disliked(n *fleet.Node) int32 {
	count := int32(0)
	for key, want := range f.spec.Placement.Prefer {
		if have, ok := n.Label(key); !ok || have != want {
			count++
		}
	}
	return count
}
