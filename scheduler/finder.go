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
	fleet   *capacity.Map
	spec    *fleet.ModelSpec
	admit   *admission
	hosts   []*capacity.Host // admitted, whatever is left of them, in order of name
	fabrics []fabricHosts    // the same by fabric, when the spec has several nodes
	classes []string         // in order of preference
	spread  spread
}

func newFinder(m *capacity.Map, spec *fleet.ModelSpec, b Backoff, same []*fleet.Replica) *finder {
	f := &finder{fleet: m, spec: spec, admit: newAdmission(spec, b), classes: spec.Placement.Classes}
	if len(f.classes) == 0 {
		f.classes = everyClass(m.Hosts)
	}
	f.spread = newSpread(m, spec.Placement.Spread, same)
	for _, h := range m.Hosts {
		if f.admit.refuse(h) == "" {
			f.hosts = append(f.hosts, h)
		}
	}
	f.group()
	return f
}

func (f *finder) group() {
	if f.spec.Placement.Nodes > 1 {
		f.fabrics = byFabric(f.hosts)
	}
}

// everyClass lists the classes that the fleet has, smallest cards first: a model that names no class takes the least that will do.
func everyClass(hosts []*capacity.Host) []string {
	memory := map[string]fleet.Bytes{}
	for _, h := range hosts {
		for i := range h.Cards {
			c := &h.Cards[i]
			memory[c.Class] = max(memory[c.Class], c.GPU.Memory)
		}
	}
	return slices.SortedFunc(maps.Keys(memory), func(a, b string) int {
		return cmp.Or(cmp.Compare(memory[a], memory[b]), cmp.Compare(a, b))
	})
}

// find returns the shards of one more replica, rank by rank, or false. The first class of the order of preference that has room wins.
func (f *finder) find() ([]fleet.Shard, bool) {
	for _, class := range f.classes {
		var shards []fleet.Shard
		switch p := &f.spec.Placement; {
		case p.GPUShare > 0:
			shards = f.findShare(class)
		case p.Nodes == 1:
			shards = f.findNode(class)
		default:
			shards = f.findGang(class)
		}
		if shards != nil {
			return shards, true
		}
	}
	return nil, false
}

// claim takes the room on the map, so that the next find sees it taken.
func (f *finder) claim(shards []fleet.Shard) {
	f.fleet.Claim(shards, f.spec.Placement)
	f.spread.add(f.fleet, shards)
}

// roomy says whether a host has CPUs and memory for one more shard.
func (f *finder) roomy(h *capacity.Host) bool {
	p := &f.spec.Placement
	return h.Ready && (p.CPUs == 0 || h.CPUs >= p.CPUs) && (p.Memory == 0 || h.Memory >= p.Memory)
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

// take returns a shard of the first n idle cards of a host, by index.
func (f *finder) take(h *capacity.Host, class string, n int) fleet.Shard {
	s := fleet.Shard{Node: h.Node.Name, Claims: make([]fleet.Claim, 0, n)}
	for i := range h.Cards {
		if c := &h.Cards[i]; len(s.Claims) < n && f.suits(c, class) && c.Idle() {
			s.Claims = append(s.Claims, fleet.Claim{GPU: c.GPU.UUID})
		}
	}
	return s
}

func (f *finder) findNode(class string) []fleet.Shard {
	need := f.spec.Placement.GPUsPerNode
	var best *capacity.Host
	var least cost
	for _, h := range f.hosts {
		idle := f.idle(h, class)
		if idle < need || !f.roomy(h) {
			continue
		}
		if c := f.cost(h, int64(idle-need)); best == nil || c.less(least) {
			best, least = h, c
		}
	}
	if best == nil {
		return nil
	}
	return []fleet.Shard{f.take(best, class, need)}
}

func (f *finder) findShare(class string) []fleet.Shard {
	share := f.spec.Placement.GPUShare
	var best *capacity.Host
	var card *capacity.Card
	var least cost
	for _, h := range f.hosts {
		if !f.roomy(h) {
			continue
		}
		for i := range h.Cards {
			c := &h.Cards[i]
			if !f.suits(c, class) || c.Room() < share {
				continue
			}
			if cost := f.cost(h, int64(c.Room()-share)); best == nil || cost.less(least) {
				best, card, least = h, c, cost
			}
		}
	}
	if best == nil {
		return nil
	}
	return []fleet.Shard{{Node: best.Node.Name, Claims: []fleet.Claim{{GPU: card.GPU.UUID, Share: share}}}}
}
