package scheduler

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"berth/fleet"
)

// leastQuiet is for how long nobody must have asked for a replica before it makes room for another model. One that was used a few seconds ago
// is most likely in the middle of somebody's conversation, and its door would probably refuse.
const leastQuiet = 10 * time.Second

// unload stops the replicas that their own model lets go when nobody asks for them, down to the least number that the model wants. Each stop is
// conditional: it carries the mark of the reading that the verdict rests on, and the door shuts only if nobody has knocked since (DESIGN §8,
// rule 11). A pin is no hindrance, for nobody else takes anything here.
func (p *planner) unload(c *cast) {
	m := c.model
	if p.mayNotTake() || len(c.leaving) > 0 || p.Demand[m.Name()].Requests > 0 {
		return
	}
	spare := p.spare(m)
	slices.SortStableFunc(c.staying, p.longestQuiet)
	for _, r := range c.staying {
		if spare > 0 && p.due(m, r) && !p.stopped(r.ID) {
			spare--
			p.stopIfQuiet(r, fmt.Sprintf("nobody asked for it for %s", roughly(p.quiet(r.ID).For)))
		}
	}
}

// due says whether a model's own unload_after has come for a replica.
func (p *planner) due(m *fleet.Model, r *fleet.Replica) bool {
	after := m.Spec.Idle.UnloadAfter.Std()
	return after > 0 && p.quietFor(m, r, after)
}

// quietFor says whether it is certain that nobody has used a ready replica for so long, and it has stayed for the least time that its model asks
// for. Unknown is never quiet (rule 2 and rule 7).
func (p *planner) quietFor(m *fleet.Model, r *fleet.Replica, least time.Duration) bool {
	q := p.quiet(r.ID)
	resident := p.Now.Std().Sub(r.StateAt.Std())
	return r.State == fleet.Ready && q.Known && q.For >= least && resident >= m.Spec.Idle.MinResidence.Std()
}

// spare is how many replicas a model can do without: what it has above the least number, less what this plan takes already.
func (p *planner) spare(m *fleet.Model) int { return m.Want - m.Spec.Replicas.Min - p.taken[m.Name()] }

// mayNotTake says whether nothing at all is unloaded or evicted: the fleet is frozen, or its leader does not trust what it sees.
func (p *planner) mayNotTake() bool { return p.Frozen || p.Braked }

// stopIfQuiet stops a replica on the condition that its door's mark is still the one of the verdict, and lowers the wanted number with it. A door
// that was knocked at raises the number again.
func (p *planner) stopIfQuiet(r *fleet.Replica, reason string) {
	if p.taken == nil {
		p.taken = map[string]int{}
	}
	p.taken[r.Model]++
	mark, want := p.quiet(r.ID).Mark, p.models[r.Model].Want-p.taken[r.Model]
	p.plan.Items = append(p.plan.Items, fleet.PlanItem{Stop: &fleet.StopItem{Replica: r.ID, Reason: reason, Mark: &mark, Want: &want}})
}

// stopped says whether this plan stops the replica already.
func (p *planner) stopped(id string) bool {
	return slices.ContainsFunc(p.plan.Items, func(i fleet.PlanItem) bool { return i.Stop != nil && i.Stop.Replica == id })
}

// lettingGo says whether this plan stops the replica for being quiet.
func (p *planner) lettingGo(id string) bool {
	return slices.ContainsFunc(p.plan.Items, func(i fleet.PlanItem) bool { return i.Stop != nil && i.Stop.Replica == id && i.Stop.Mark != nil })
}

func (p *planner) longestQuiet(a, b *fleet.Replica) int {
	return cmp.Or(cmp.Compare(p.quiet(b.ID).For, p.quiet(a.ID).For), cmp.Compare(a.ID, b.ID))
}
