package scheduler

import (
	"cmp"
	"maps"
	"slices"

	"berth/fleet"
	"berth/scheduler/capacity"
)

// finder looks for room for replicas of one spec on a map of the fleet. Which nodes are admitted is worked out once; cards, CPUs and memory are
// read from the map at each call, so a caller may claim and release in between.
type finder struct {
	*ground
	spec      *fleet.ModelSpec
	admit     *admission
	hosts     []*capacity.Host // admitted, whatever is left of them, in order of name
	admitted  []bool           // by host
	fabrics   []fabricHosts    // the same by fabric, when the spec has several nodes
	inFabric  []int            // by host: its place in fabrics
	classes   []string         // in order of preference
	ranks     []*ranking       // of a spec of one node, by preference; equal classes in one
	gangs     []*gangs         // of a spec of several nodes, by class
	spread    spread
	backfills bool
	disks     map[string]bool // nodes that have the weights, where the ranks know nothing of that
	picked    []int           // scratch: places of the cards that are being priced
}

func newFinder(g *ground, spec *fleet.ModelSpec, same []*fleet.Replica) *finder {
	f := &finder{ground: g, spec: spec, admit: newAdmission(spec, g.backoff), classes: spec.Placement.Classes, backfills: backfills(spec)}
	if len(f.classes) == 0 {
		f.classes = everyClass(g.cards.Hosts)
	}
	f.spread = newSpread(g.cards, spec.Placement.Spread, same)
	f.admitted = make([]bool, len(g.cards.Hosts))
	for _, h := range g.cards.Hosts {
		// whether it is ready is asked when its room is looked at: that may be changed for a while
		if f.admit.ever(h.Node) == "" && f.admit.heldBack(h.Node.Name) == "" {
			f.admitted[h.Index] = true
			f.hosts = append(f.hosts, h)
		}
	}
	f.rank()
	return f
}

// rank prepares the search; a spec that names no class has its choice of all cards of equal memory.
func (f *finder) rank() {
	if f.spec.Placement.Nodes > 1 {
		f.group()
		for _, class := range f.classes {
			f.gangs = append(f.gangs, newGangs(f, class))
		}
		return
	}
	if len(f.spec.Placement.Classes) > 0 {
		for i := range f.classes {
			f.ranks = append(f.ranks, &ranking{f: f, classes: f.classes[i : i+1], at: -1})
		}
		return
	}
	memory := classMemory(f.cards.Hosts)
	for i := 0; i < len(f.classes); {
		j := i + 1
		for j < len(f.classes) && memory[f.classes[j]] == memory[f.classes[i]] {
			j++
		}
		f.ranks = append(f.ranks, &ranking{f: f, classes: f.classes[i:j], at: -1})
		i = j
	}
}

// everyClass lists the classes that the fleet has, smallest cards first: a model that names no class takes the least that will do.
func everyClass(hosts []*capacity.Host) []string {
	memory := classMemory(hosts)
	return slices.SortedFunc(maps.Keys(memory), func(a, b string) int {
		return cmp.Or(cmp.Compare(memory[a], memory[b]), cmp.Compare(a, b))
	})
}

func classMemory(hosts []*capacity.Host) map[string]fleet.Bytes {
	memory := map[string]fleet.Bytes{}
	for _, h := range hosts {
		for i := range h.Cards {
			c := &h.Cards[i]
			memory[c.Class] = max(memory[c.Class], c.GPU.Memory)
		}
	}
	return memory
}

// find returns the shards of one more replica, rank by rank, or false. The first class of the order of preference that has room wins.
func (f *finder) find() ([]fleet.Shard, bool) {
	for _, g := range f.gangs {
		if shards := g.find(); shards != nil {
			return shards, true
		}
	}
	for _, r := range f.ranks {
		if p, ok := f.best(r); ok {
			return []fleet.Shard{f.shard(p)}, true
		}
	}
	return nil, false
}

// with returns the finder of a model whose weights are on the disks of some nodes, made of one that knows nothing of weights.
func (f *finder) with(disks map[string]bool) *finder {
	if len(disks) == 0 {
		return f
	}
	own := *f
	own.disks, own.picked = disks, nil
	return &own
}

// best returns the cheapest place of a rank. Where the rank knows nothing of the nodes that have the weights, its cheapest place costs what it would with
// the weights to be fetched, and each of those nodes is looked at beside it: any other node is dearer than the first by the rank's own order.
func (f *finder) best(r *ranking) (place, bool) {
	p, ok := r.best()
	if !ok || len(f.disks) == 0 || f.disks[p.host.Node.Name] {
		return p, ok
	}
	p.cost.wish.cold = 1
	for name := range f.disks {
		h := f.cards.Host(name)
		if h == nil || !f.admitted[h.Index] {
			continue
		}
		q, ok := r.f.price(h, r.classes)
		if c := q.cost.compare(&p.cost); ok && (c < 0 || c == 0 && q.host.Index < p.host.Index) {
			p = q
		}
	}
	return p, true
}

// fits says whether find would find anything.
func (f *finder) fits() bool {
	for _, g := range f.gangs {
		if g.best() >= 0 {
			return true
		}
	}
	for _, r := range f.ranks {
		if _, ok := r.best(); ok {
			return true
		}
	}
	return false
}

func (f *finder) shard(p place) fleet.Shard {
	s := fleet.Shard{Node: p.host.Node.Name}
	if p.card >= 0 {
		s.Claims = []fleet.Claim{{GPU: p.host.Cards[p.card].GPU.UUID, Share: f.spec.Placement.GPUShare}}
		return s
	}
	return f.take(p.host, p.class, f.spec.Placement.GPUsPerNode)
}

// claim takes the room on the map, so that the next find sees it taken.
func (f *finder) claim(shards []fleet.Shard) {
	f.cards.Claim(shards, &f.spec.Placement)
	f.spread.add(f.cards, shards)
	if f.spread.wide() {
		for _, r := range f.ranks {
			r.at = -1
		}
		for _, g := range f.gangs {
			g.at = -1
		}
	}
}

// roomy says whether a host has CPUs and memory for one more shard.
func (f *finder) roomy(h *capacity.Host) bool {
	p := &f.spec.Placement
	return h.Ready && !f.barred(h) && (p.CPUs == 0 || h.CPUs >= p.CPUs) && (p.Memory == 0 || h.Memory >= p.Memory)
}

// barred says whether the host is kept for a model that has waited longer.
func (f *finder) barred(h *capacity.Host) bool {
	return f.reserved != nil && f.reserved[h.Index] && !f.backfills
}

// idle returns how many cards of a class the host has for whole claims of this spec.
func (f *finder) idle(h *capacity.Host, class string) int {
	n := h.Idle(class)
	if n == 0 || f.spec.Placement.GPUMemory == 0 {
		return n
	}
	n = 0
	for i := range h.Cards {
		if f.suits(&h.Cards[i], class) && h.Cards[i].Idle() {
			n++
		}
	}
	return n
}

func (f *finder) suits(c *capacity.Card, class string) bool {
	return c.Class == class && c.GPU.Memory >= f.spec.Placement.GPUMemory
}

// take returns a shard of n idle cards of a host, by index.
func (f *finder) take(h *capacity.Host, class string, n int) fleet.Shard {
	s := fleet.Shard{Node: h.Node.Name, Claims: make([]fleet.Claim, 0, n)}
	for _, i := range f.pick(f.picked[:0], h, class, n) {
		s.Claims = append(s.Claims, fleet.Claim{GPU: h.Cards[i].GPU.UUID})
	}
	return s
}
