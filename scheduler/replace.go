package scheduler

import (
	"cmp"
	"fmt"
	"slices"

	"berth/fleet"
)

// scaleDown stops what is more than wanted: replicas that are not ready first, then those on unreachable nodes, then those whose node came back
// after they had become ready (their replacement is ready, else it would have gone first), then the youngest.
func (p *planner) scaleDown(c *cast) {
	excess := len(c.staying) - c.want
	if excess <= 0 {
		return
	}
	for _, r := range c.lost {
		p.stop(r, "scaled down while its node is unreachable")
	}
	c.lost = nil
	slices.SortStableFunc(c.staying, p.dispensable)
	for _, r := range c.staying[:excess] {
		p.stop(r, fmt.Sprintf("more replicas than the %d wanted", c.want))
	}
	c.staying = c.staying[excess:]
}

// dispensable orders replicas by how little is lost when they stop, the least first.
func (p *planner) dispensable(a, b *fleet.Replica) int {
	return cmp.Or(
		-compareBool(a.State != fleet.Ready, b.State != fleet.Ready),
		-compareBool(p.returned(a), p.returned(b)),
		-cmp.Compare(a.CreatedAt, b.CreatedAt),
		-cmp.Compare(a.ID, b.ID),
	)
}

// returned says whether a node of the replica registered again after the replica had become ready.
func (p *planner) returned(r *fleet.Replica) bool {
	for _, s := range r.Shards {
		if n := p.nodes[s.Node]; n != nil && n.RegisteredAt > r.StateAt {
			return true
		}
	}
	return false
}

func compareBool(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return 1
	default:
		return -1
	}
}

// retire stops replicas that have a ready successor, and those that nothing is wanted for.
func (p *planner) retire(c *cast) {
	n := min(len(c.leaving), ready(c.staying)+len(c.leaving)-c.want)
	if n <= 0 {
		return
	}
	slices.SortStableFunc(c.leaving, p.dispensable)
	goes := slices.Clone(c.leaving)
	if c.model.Paused {
		goes = slices.Clone(c.movers)
	}
	for _, r := range goes[:min(n, len(goes))] {
		p.stop(r, p.whyReplaced(c, r))
		same := func(m *fleet.Replica) bool { return m == r }
		c.movers, c.leaving = slices.DeleteFunc(c.movers, same), slices.DeleteFunc(c.leaving, same)
	}
}

func (p *planner) whyReplaced(c *cast, r *fleet.Replica) string {
	if slices.Contains(c.movers, r) {
		for _, s := range r.Shards {
			if n := p.nodes[s.Node]; n.Admin == fleet.Draining {
				return "node " + n.Name + " is being drained"
			}
		}
		return "a GPU of it is gone"
	}
	return fmt.Sprintf("replaced by generation %d", c.model.Generation)
}

// turnOver goes on with a rollout that may not place anything beside the old replicas.
func (p *planner) turnOver(c *cast) {
	if why := c.held(p.Backoff.Models[c.model.Name()]); why != "" {
		p.refuse(c, fleet.Refusal{Reason: why})
		return
	}
	f := p.finder(c.model)
	if !p.drainFirst(c, f) {
		r := p.explain(c.model.Name(), f)
		r.Reason = c.waiting() + "; " + r.Reason
		p.refuse(c, r)
	}
}

// drainFirst stops the fewest old replicas whose cards let a successor in, so that a rollout goes on in a full fleet, and says whether it did.
// It first makes sure that the successor fits then, that nothing else of this model is on its way, that no new replica has failed, and that no more
// ready replicas go than max_unavailable allows; at least one may go, because otherwise the rollout would never end.
func (p *planner) drainFirst(c *cast, f *finder) bool {
	if c.old() == 0 || c.model.Paused || len(c.ending) > 0 || c.starting() > 0 || len(c.failed) > 0 {
		return false
	}
	victims := p.victims(c, f)
	losing := ready(victims)
	floor := c.want - max(losing, c.model.Spec.Rollout.MaxUnavailable)
	if len(victims) == 0 || losing > 0 && ready(c.staying)+ready(c.leaving)-losing < floor {
		return false
	}
	for _, r := range victims {
		p.stop(r, fmt.Sprintf("makes room for generation %d", c.model.Generation))
	}
	return true
}

// victims returns the fewest old replicas, those of which least is lost first, without which one more replica fits; none when that does not help,
// and one when there is room but no surge to use it.
func (p *planner) victims(c *cast, f *finder) []*fleet.Replica {
	old := slices.DeleteFunc(slices.Clone(c.leaving), func(r *fleet.Replica) bool { return slices.Contains(c.movers, r) })
	slices.SortStableFunc(old, p.dispensable)
	if f.fits() {
		return old[:1]
	}
	return p.without(f, old)
}

// without returns a smallest part of the replicas (none of it can be left out) without whose claims f finds room, or nil. The map is as before when
// it returns.
func (p *planner) without(f *finder, candidates []*fleet.Replica) []*fleet.Replica {
	var gone []*fleet.Replica
	fits := false
	for _, r := range candidates {
		f.cards.Release(r.Shards, p.placement(r))
		gone = append(gone, r)
		if fits = f.fits(); fits {
			break
		}
	}
	var needed []*fleet.Replica
	for i := len(gone) - 1; i >= 0; i-- {
		r := gone[i]
		f.cards.Claim(r.Shards, p.placement(r))
		if !fits {
			continue
		}
		if !f.fits() {
			needed = append(needed, r)
			f.cards.Release(r.Shards, p.placement(r))
		}
	}
	for _, r := range needed {
		f.cards.Claim(r.Shards, p.placement(r))
	}
	slices.Reverse(needed)
	return needed
}
