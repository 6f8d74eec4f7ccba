package scheduler

import "berth/fleet"

// said is why there was no room for a model, when so much of the plan had been made.
type said struct {
	made    int
	refusal fleet.Refusal
}

// made counts what a plan has decided so far: while it is the same, who asks for the same is answered the same.
func (p *planner) made() int {
	return len(p.plan.Items) + len(p.claims) + len(p.keeps) + len(p.promised) + len(p.preempted)
}

// saidBefore returns what was said to a model like this one since the plan last decided anything: a thousand models for which there is no room cost as
// many searches as there are kinds of them.
func (p *planner) saidBefore(c *cast) (fleet.Refusal, bool) {
	if !p.anyone(c) {
		return fleet.Refusal{}, false
	}
	s, ok := p.said[likeness(&c.model.Spec)]
	return s.refusal, ok && s.made == p.made()
}

func (p *planner) say(c *cast, r fleet.Refusal) {
	if !p.anyone(c) {
		return
	}
	if p.said == nil {
		p.said = map[string]said{}
	}
	p.said[likeness(&c.model.Spec)] = said{p.made(), r}
}

// anyone says whether nothing but its spec tells a model without room apart: it has no replicas, nobody waits for it, and nothing is kept for it. Its priority
// does not: those of a higher one have had their turn, and where they could make nobody go, it cannot.
func (p *planner) anyone(c *cast) bool {
	name, g := c.model.Name(), p.room()
	return len(p.replicas[name]) == 0 && c.placed == 0 && p.Demand[name].Requests == 0 && !p.mayKeep(c) && !g.paired[name] && len(g.weights[name]) == 0
}

// mayKeep says whether room is to be kept for a model now: it has waited long, and it is its turn.
func (p *planner) mayKeep(c *cast) bool {
	waited := p.Waited[c.model.Name()]
	return c.missing() > 0 && waited >= reserveAfter && (waited-reserveAfter)%(2*reserveFor) < reserveFor && p.reservedModels() < mostReserved
}
