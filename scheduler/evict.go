package scheduler

import (
	"cmp"
	"fmt"
	"slices"

	"berth/fleet"
)

// waking says whether requests wait for a model that has nothing and would be at zero without them.
func (p *planner) waking(c *cast) bool {
	return c.want > 0 && c.model.Spec.Replicas.Min == 0 && c.present() == 0 && p.Demand[c.model.Name()].Requests > 0
}

// makeRoom makes room for a model that is being woken: room that conditional drains are about to give back, or else the fewest quiet replicas,
// of the lowest priority first and of those the longest quiet. It says whether room is on its way, so that nothing is to be refused.
func (p *planner) makeRoom(c *cast, f *finder) bool {
	if !p.waking(c) || p.mayNotTake() {
		return false
	}
	if coming := p.without(f, p.onItsWay()); coming != nil {
		p.promise(coming)
		return true
	}
	if p.Backoff.Turns[c.model.Name()].For > 0 {
		return false
	}
	victims := p.without(f, p.evictable(c))
	for _, r := range victims {
		p.stopIfQuiet(r, fmt.Sprintf("quiet for %s, makes room for %s", roughly(p.quiet(r.ID).For), c.model.Name()))
	}
	p.promise(victims)
	return len(victims) > 0
}

// onItsWay returns the replicas whose cards come back soon and are promised to nobody: those that drain on a condition, and those whose doors are shut.
func (p *planner) onItsWay() []*fleet.Replica {
	var out []*fleet.Replica
	for _, r := range p.Snapshot.Replicas {
		soon := r.State == fleet.DrainingDown && r.Drain != nil && (r.Drain.Mark != nil || r.Drain.DoorShut)
		if (soon || p.lettingGo(r.ID)) && !p.promised[r.ID] && !p.isLost(r) {
			out = append(out, r)
		}
	}
	return out
}

// notYet completes a refusal: why nothing makes room for a model that is being woken.
func (p *planner) notYet(c *cast) string {
	switch hold := p.Backoff.Turns[c.model.Name()]; {
	case !p.waking(c) || p.mayNotTake():
		return ""
	case hold.For > 0:
		return fmt.Sprintf("; %s and waits %s for its turn", hold.Cause, roughly(hold.For))
	default:
		return "; nothing makes room: what runs is in use, pinned, of a higher priority, or has not stayed for its min_residence"
	}
}

// promise keeps one replica's cards from being counted on by two models.
func (p *planner) promise(rs []*fleet.Replica) {
	if p.promised == nil {
		p.promised = map[string]bool{}
	}
	for _, r := range rs {
		p.promised[r.ID] = true
	}
}

// evictable returns what may go for a woken model, the least loss first: replicas that are certainly quiet, of models that matter no more, are not
// pinned, have stayed for their least time, and keep as many replicas as they want at least. A model of a higher priority may take more than
// that; then it preempts.
func (p *planner) evictable(c *cast) []*fleet.Replica {
	var out []*fleet.Replica
	for _, r := range p.Snapshot.Replicas {
		m := p.models[r.Model]
		switch {
		case m == nil || m == c.model || m.Deleting || m.Spec.Pin || m.Spec.Priority > c.model.Spec.Priority:
		case p.quietFor(m, r, leastQuiet) && !p.stopped(r.ID) && p.Demand[r.Model].Requests == 0:
			out = append(out, r)
		}
	}
	slices.SortStableFunc(out, func(a, b *fleet.Replica) int {
		return cmp.Or(cmp.Compare(p.models[a.Model].Spec.Priority, p.models[b.Model].Spec.Priority), p.longestQuiet(a, b))
	})
	spare := map[string]int{}
	out = slices.DeleteFunc(out, func(r *fleet.Replica) bool {
		if _, known := spare[r.Model]; !known {
			spare[r.Model] = p.spare(p.models[r.Model])
		}
		spare[r.Model]--
		return spare[r.Model] < 0
	})
	return out[:min(len(out), maxTries)]
}
