package scheduler

import (
	"cmp"
	"container/heap"
	"maps"
	"slices"

	"berth/fleet"
	"berth/scheduler/capacity"
)

// fabricHosts is the admitted hosts of one known fabric.
type fabricHosts struct {
	fabric string
	hosts  []*capacity.Host
}

// group groups the hosts, which are in known fabrics because the spec has several nodes, by fabric, in the order of the fabrics' names.
func (f *finder) group() {
	f.inFabric = make([]int, len(f.cards.Hosts))
	by := map[string][]*capacity.Host{}
	for _, h := range f.hosts {
		by[h.Fabric] = append(by[h.Fabric], h)
	}
	for _, fabric := range slices.Sorted(maps.Keys(by)) {
		for _, h := range by[fabric] {
			f.inFabric[h.Index] = len(f.fabrics)
		}
		f.fabrics = append(f.fabrics, fabricHosts{fabric, by[fabric]})
	}
}

// gangs keeps the fabrics in the order of what a gang of one class would cost there. Like a ranking it looks again only where something changed.
type gangs struct {
	f      *finder
	class  string
	heap   offers
	stamps []uint32 // by fabric: of its newest offer
	dirty  []int    // fabrics to look at again, each once
	marked []bool   // by fabric: it is in dirty
	buf    []place
	at     int // of the map's log; -1: never built
}

// offer is what a gang in a fabric would cost; it stands while its stamp is the fabric's.
type offer struct {
	fabric int
	stamp  uint32
	cost   gangCost
}

// offers is a heap.
type offers []offer

func (o offers) Len() int { return len(o) }
func (o offers) Less(i, j int) bool {
	if c := o[i].cost.compare(&o[j].cost); c != 0 {
		return c < 0
	}
	return o[i].fabric < o[j].fabric
}
func (o offers) Swap(i, j int) { o[i], o[j] = o[j], o[i] }
func (o *offers) Push(x any)   { *o = append(*o, x.(offer)) }
func (o *offers) Pop() any {
	last := len(*o) - 1
	x := (*o)[last]
	*o = (*o)[:last]
	return x
}

// gangCost is the sum over the hosts of a gang.
type gangCost struct {
	wish  wish
	waste int64
	spare int // hosts of the fabric that could take a shard beside the gang's
	left  int64
}

func (a *gangCost) compare(b *gangCost) int {
	return cmp.Or(a.wish.compare(b.wish), cmp.Compare(a.waste, b.waste), cmp.Compare(a.spare, b.spare), cmp.Compare(a.left, b.left))
}

func newGangs(f *finder, class string) *gangs {
	n := len(f.fabrics)
	return &gangs{f: f, class: class, stamps: make([]uint32, n), marked: make([]bool, n), at: -1}
}

// find takes the hosts of least cost in the fabric where they cost least; of equal ones the fabric with the fewest hosts to spare. Ranks go by the names
// of their nodes.
func (g *gangs) find() []fleet.Shard {
	best := g.best()
	if best < 0 {
		return nil
	}
	p := &g.f.spec.Placement
	chosen := g.cheapest(best)[:p.Nodes]
	slices.SortFunc(chosen, func(a, b place) int { return cmp.Compare(a.host.Index, b.host.Index) })
	shards := make([]fleet.Shard, 0, p.Nodes)
	for _, x := range chosen {
		shards = append(shards, g.f.take(x.host, g.class, p.GPUsPerNode))
	}
	return shards
}

// best returns the fabric where a gang costs least, or -1.
func (g *gangs) best() int {
	g.update()
	for len(g.heap) > 0 {
		if top := &g.heap[0]; top.stamp == g.stamps[top.fabric] {
			return top.fabric
		}
		heap.Pop(&g.heap)
	}
	return -1
}

func (g *gangs) update() {
	m := g.f.cards
	changed, known := m.Since(g.at)
	if g.at < 0 || !known || len(g.heap) > 4*len(g.stamps)+64 {
		g.build()
	} else {
		for _, i := range changed {
			if g.f.admitted[i] {
				g.mark(g.f.inFabric[i])
			}
		}
		for _, fabric := range g.dirty {
			g.marked[fabric] = false
			if o, ok := g.price(fabric); ok {
				heap.Push(&g.heap, o)
			}
		}
		g.dirty = g.dirty[:0]
	}
	g.at = m.Now()
}

func (g *gangs) mark(fabric int) {
	if !g.marked[fabric] {
		g.marked[fabric] = true
		g.dirty = append(g.dirty, fabric)
	}
}

func (g *gangs) build() {
	g.heap = g.heap[:0]
	for fabric := range g.stamps {
		if o, ok := g.price(fabric); ok {
			g.heap = append(g.heap, o)
		}
	}
	heap.Init(&g.heap)
}

// price works out a fabric's new offer; its old ones stand no more.
func (g *gangs) price(fabric int) (offer, bool) {
	g.stamps[fabric]++
	able, n := g.cheapest(fabric), g.f.spec.Placement.Nodes
	if len(able) < n {
		return offer{}, false
	}
	sum := gangCost{spare: len(able) - n}
	for _, x := range able[:n] {
		sum.wish = sum.wish.add(x.cost.wish)
		sum.waste += x.cost.waste
		sum.left += x.cost.left
	}
	return offer{fabric, g.stamps[fabric], sum}, true
}

// cheapest returns those of a fabric's hosts that can take a shard now, in the order of their cost; the slice is good until the next call.
func (g *gangs) cheapest(fabric int) []place {
	g.buf = g.buf[:0]
	for _, h := range g.f.fabrics[fabric].hosts {
		if !g.f.roomy(h) {
			continue
		}
		p := place{card: -1}
		if g.f.priceCards(h, g.class, &p); p.host != nil {
			g.buf = append(g.buf, p)
		}
	}
	slices.SortStableFunc(g.buf, func(a, b place) int { return a.cost.compare(&b.cost) })
	return g.buf
}

// able counts those of the hosts that can take a shard of the class now.
func (f *finder) able(hosts []*capacity.Host, class string) int {
	n := 0
	for _, h := range hosts {
		if f.roomy(h) && f.idle(h, class) >= f.spec.Placement.GPUsPerNode {
			n++
		}
	}
	return n
}
