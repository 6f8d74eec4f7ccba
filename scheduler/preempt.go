package scheduler

import (
	"fmt"
	"slices"

	"berth/fleet"
)

// preempt makes room for a model that has fewer replicas than it wants by draining replicas of lower priority, and says whether room is on its way. It does
// nothing before it has seen on the map that the replica fits once they are gone, and takes none without which it fits as well. Until they are gone their
// hosts are reserved, so that nothing else settles there in between.
func (p *planner) preempt(c *cast, f *finder) bool {
	if c.missing() == 0 || p.mayNotTake() {
		return false
	}
	if p.waitFor(c.model.Name(), f, p.draining()) {
		return true
	}
	if !slices.ContainsFunc(p.Models, func(m *fleet.Model) bool { return !m.Spec.Pin && m.Spec.Priority < c.model.Spec.Priority }) {
		return false
	}
	for _, way := range p.clearings(f, func(r *fleet.Replica) bool { return p.yields(r, c.model) }) {
		goes := p.without(f, way.goes)
		if len(goes) == 0 {
			continue
		}
		p.waitFor(c.model.Name(), f, goes)
		if p.preempted == nil {
			p.preempted = map[string]bool{}
		}
		for _, r := range goes {
			p.preempted[r.ID] = true
			p.again(r.Model)
			p.stop(r, fmt.Sprintf("makes room for %s, which has priority %d", c.model.Name(), c.model.Spec.Priority))
		}
		return true
	}
	return false
}

// yields says whether a replica gives way to a model: one of lower priority, never a pinned one, and none that is being ended already.
func (p *planner) yields(r *fleet.Replica, to *fleet.Model) bool {
	m := p.models[r.Model]
	return m != nil && r.State.Live() && !m.Spec.Pin && !m.Deleting && m.Spec.Priority < to.Spec.Priority && !p.stopped(r.ID) && !p.isLost(r)
}

// draining returns the replicas whose cards come back without another order and are promised to nobody.
func (p *planner) draining() []*fleet.Replica {
	var out []*fleet.Replica
	for _, r := range p.Snapshot.Replicas {
		ending := r.State == fleet.DrainingDown && r.Drain != nil && r.Drain.Mark == nil
		if (ending || p.ordered(r.ID)) && !p.promised[r.ID] && !p.isLost(r) {
			out = append(out, r)
		}
	}
	return out
}

// ordered says whether this plan ends the replica for certain.
func (p *planner) ordered(id string) bool { return p.stopped(id) && !p.lettingGo(id) }

// waitFor says whether the model fits once the replicas are gone; if so it keeps them, and the hosts where it will go, for it.
func (p *planner) waitFor(model string, f *finder, going []*fleet.Replica) bool {
	going = slices.DeleteFunc(slices.Clone(going), func(r *fleet.Replica) bool { return p.promised[r.ID] })
	needed := p.without(f, going)
	if len(needed) == 0 {
		return false
	}
	for _, r := range needed {
		f.cards.Release(r.Shards, p.placement(r))
	}
	shards, _ := f.find()
	for _, r := range needed {
		f.cards.Claim(r.Shards, p.placement(r))
	}
	p.promise(needed)
	for _, s := range shards {
		p.reserve(f.cards.Host(s.Node), model)
	}
	return true
}
