package scheduler

import (
	"cmp"
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
	f.inFabric = map[string]int{}
	by := map[string][]*capacity.Host{}
	for _, h := range f.hosts {
		by[h.Fabric] = append(by[h.Fabric], h)
	}
	for _, fabric := range slices.Sorted(maps.Keys(by)) {
		f.inFabric[fabric] = len(f.fabrics)
		f.fabrics = append(f.fabrics, fabricHosts{fabric, by[fabric]})
	}
}

// gangs keeps, fabric by fabric, what a gang of one class would cost there. Like a ranking it looks again only at fabrics in which something changed.
type gangs struct {
	f     *finder
	class string
	costs []gangCost // by fabric
	fits  []bool
	stale []bool
	buf   []place
	at    int // of the map's log; -1: never built
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
	return &gangs{f: f, class: class, costs: make([]gangCost, n), fits: make([]bool, n), stale: make([]bool, n), at: -1}
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
	best := -1
	for i := range g.costs {
		if g.fits[i] && (best < 0 || g.costs[i].compare(&g.costs[best]) < 0) {
			best = i
		}
	}
	return best
}

func (g *gangs) update() {
	m := g.f.cards
	changed, known := m.Since(g.at)
	all := g.at < 0 || !known
	if !all {
		for _, i := range changed {
			if g.f.admitted[i] {
				g.stale[g.f.inFabric[m.Hosts[i].Fabric]] = true
			}
		}
	}
	for i := range g.stale {
		if all || g.stale[i] {
			g.price(i)
			g.stale[i] = false
		}
	}
	g.at = m.Now()
}

func (g *gangs) price(fabric int) {
	able, n := g.cheapest(fabric), g.f.spec.Placement.Nodes
	if g.fits[fabric] = len(able) >= n; !g.fits[fabric] {
		return
	}
	sum := gangCost{spare: len(able) - n}
	for _, x := range able[:n] {
		sum.wish = sum.wish.add(x.cost.wish)
		sum.waste += x.cost.waste
		sum.left += x.cost.left
	}
	g.costs[fabric] = sum
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
