package scheduler

import (
	"cmp"
	"slices"

	"berth/fleet"
	"berth/scheduler/capacity"
)

// clearing is a way to make room for one replica: hosts, all in one fabric when there are several, and the replicas that would have to go from them.
type clearing struct {
	hosts []*capacity.Host
	goes  []*fleet.Replica
	cost  clearCost
}

// clearCost says what is lost, the least first: replicas that are in use before any question of priority, then the highest priority among them, then what
// must be loaded again.
type clearCost struct {
	inUse    int
	priority int
	loaded   int // cards whose weights are loaded already
	cards    int
}

func (a clearCost) compare(b clearCost) int {
	return cmp.Or(cmp.Compare(a.inUse, b.inUse), cmp.Compare(a.priority, b.priority), cmp.Compare(a.loaded, b.loaded), cmp.Compare(a.cards, b.cards))
}

func (a clearCost) plus(b clearCost) clearCost {
	return clearCost{a.inUse + b.inUse, max(a.priority, b.priority), a.loaded + b.loaded, a.cards + b.cards}
}

// lossOf is what is lost with one replica.
func (p *planner) lossOf(r *fleet.Replica) clearCost {
	c := clearCost{cards: cardsOf(r)}
	if m := p.models[r.Model]; m != nil {
		c.priority = m.Spec.Priority
	}
	if r.State == fleet.Ready {
		c.loaded = c.cards
		if q := p.quiet(r.ID); !q.Known || q.For < leastQuiet {
			c.inUse = 1
		}
	}
	return c
}

func cardsOf(r *fleet.Replica) int {
	n := 0
	for _, s := range r.Shards {
		n += len(s.Claims)
	}
	return n
}

// clearings returns the cheapest ways to make room for one replica by letting go of replicas that may go, the cheapest first, as far as counting cards can
// tell; CPUs and memory are left to whoever tries them out. There are at most maxTries of them.
func (p *planner) clearings(f *finder, mayGo func(*fleet.Replica) bool) []clearing {
	var out []clearing
	for _, class := range f.classes {
		if f.spec.Placement.Nodes == 1 {
			for _, h := range f.hosts {
				if c, ok := p.clear(f, h, class, mayGo); ok {
					out = append(out, c)
				}
			}
			continue
		}
		for _, room := range f.fabrics {
			if c, ok := p.clearFabric(f, room.hosts, class, mayGo); ok {
				out = append(out, c)
			}
		}
	}
	slices.SortStableFunc(out, func(a, b clearing) int { return a.cost.compare(b.cost) })
	return out[:min(len(out), maxTries)]
}

// clear returns the fewest of a host's replicas, those of which least is lost first, without which it has cards enough for a shard.
func (p *planner) clear(f *finder, h *capacity.Host, class string, mayGo func(*fleet.Replica) bool) (clearing, bool) {
	out := clearing{hosts: []*capacity.Host{h}}
	if !h.Ready || f.reserved[h.Index] {
		return out, false
	}
	need := max(1, f.spec.Placement.GPUsPerNode)
	free := f.tally(h, class)
	if free.usable < need {
		return out, false
	}
	here := slices.DeleteFunc(slices.Clone(p.holders()[h.Node.Name]), func(r *fleet.Replica) bool { return !mayGo(r) })
	slices.SortStableFunc(here, func(a, b *fleet.Replica) int { return p.lossOf(a).compare(p.lossOf(b)) })
	have := free.fit
	for _, r := range here {
		if have >= need {
			break
		}
		out.goes = append(out.goes, r)
		out.cost = out.cost.plus(p.lossOf(r))
		have += len(r.Shards[r.Rank(h.Node.Name)].Claims)
	}
	return out, have >= need
}

// clearFabric takes the hosts that are cheapest to clear.
func (p *planner) clearFabric(f *finder, hosts []*capacity.Host, class string, mayGo func(*fleet.Replica) bool) (clearing, bool) {
	var each []clearing
	for _, h := range hosts {
		if c, ok := p.clear(f, h, class, mayGo); ok {
			each = append(each, c)
		}
	}
	n := f.spec.Placement.Nodes
	if len(each) < n {
		return clearing{}, false
	}
	slices.SortStableFunc(each, func(a, b clearing) int { return a.cost.compare(b.cost) })
	var out clearing
	for _, c := range each[:n] {
		out.hosts = append(out.hosts, c.hosts...)
		for _, r := range c.goes {
			if !slices.Contains(out.goes, r) { // a gang that goes frees several hosts, and is lost once
				out.goes = append(out.goes, r)
				out.cost = out.cost.plus(p.lossOf(r))
			}
		}
	}
	return out, true
}

// holders returns the replicas that hold cards, by node.
func (p *planner) holders() map[string][]*fleet.Replica {
	if p.onNode == nil {
		p.onNode = map[string][]*fleet.Replica{}
		for _, r := range p.Snapshot.Replicas {
			for _, s := range r.Shards {
				if !s.Released {
					p.onNode[s.Node] = append(p.onNode[s.Node], r)
				}
			}
		}
	}
	return p.onNode
}
