package scheduler

import (
	"cmp"
	"maps"
	"slices"

	"berth/fleet"
	"berth/scheduler/capacity"
)

// Plan proposes what to change so that the fleet comes nearer to what its models ask for, and explains every replica that it cannot place.
// Models go by priority, then by age; one that does not fit holds nothing and does not stop those behind it. Items never depend on each other
// but for a Wake, which stands before the placement it allows.
func Plan(s Snapshot) fleet.Plan {
	p := newPlanner(s)
	p.run()
	return p.plan
}

func (p *planner) run() {
	for p.queue = p.inOrder(); len(p.queue) > 0; {
		m := p.queue[0]
		p.queue = p.queue[1:]
		p.model(m)
	}
	p.release()
	if p.Frozen {
		p.plan.Items = nil
	}
}

// planner holds one run of Plan.
type planner struct {
	Snapshot
	models    map[string]*fleet.Model
	nodes     map[string]*fleet.Node
	replicas  map[string][]*fleet.Replica // by model
	queue     []*fleet.Model              // still to be planned for
	ground    *ground                     // nil until somebody looks for room
	keeper    *Planner                    // of the ground, or nil
	claims    []claim
	keeps     []kept                      // hosts reserved by this plan
	onNode    map[string][]*fleet.Replica // holders of cards; nil until asked for
	plan      fleet.Plan
	taken     map[string]int  // by model: replicas that this plan stops for being quiet
	preempted map[string]bool // by replica: this plan drains it for a model of higher priority
	promised  map[string]bool // by replica: its cards are on their way to a model that is being woken
	said      map[string]said // why there is no room, by what was asked for
}

func newPlanner(s Snapshot) *planner {
	p := &planner{Snapshot: s, nodes: byName(s.Nodes), models: make(map[string]*fleet.Model, len(s.Models)), replicas: make(map[string][]*fleet.Replica, len(s.Models))}
	for _, m := range s.Models {
		p.models[m.Name()] = m
	}
	for _, r := range s.Replicas {
		p.replicas[r.Model] = append(p.replicas[r.Model], r)
	}
	return p
}

func byName(nodes []*fleet.Node) map[string]*fleet.Node {
	out := make(map[string]*fleet.Node, len(nodes))
	for _, n := range nodes {
		out[n.Name] = n
	}
	return out
}

// inOrder gives the models for which there may be something to do, in the order in which they are planned for.
func (p *planner) inOrder() []*fleet.Model {
	out := slices.Clone(p.Models)
	if p.keeper != nil {
		out = slices.Collect(maps.Values(p.keeper.open))
		for name := range p.Demand {
			if m := p.models[name]; m != nil && p.keeper.open[name] == nil {
				out = append(out, m)
			}
		}
	}
	slices.SortFunc(out, p.before)
	return out
}

func (p *planner) before(a, b *fleet.Model) int {
	return cmp.Or(cmp.Compare(b.Spec.Priority, a.Spec.Priority), cmp.Compare(p.Backoff.Turns[a.Name()].For, p.Backoff.Turns[b.Name()].For), a.Created.Compare(b.Created), cmp.Compare(a.Name(), b.Name()))
}

// again plans for a model although it lacked nothing: this plan takes something from it, for a model that goes before it.
func (p *planner) again(name string) {
	m := p.models[name]
	if i, there := slices.BinarySearchFunc(p.queue, m, p.before); !there {
		p.queue = slices.Insert(p.queue, i, m)
	}
}

// room returns the fleet's cards with everything claimed that is claimed now or by this plan. They are laid out on first use: a fleet that lacks nothing
// costs one look at its replicas.
func (p *planner) room() *ground {
	switch {
	case p.ground != nil:
	case p.keeper != nil:
		p.ground = p.keeper.laid.lay(p)
	default:
		p.ground = newGround(capacity.New(p.Nodes, p.Snapshot.Replicas, p.placement), &p.Snapshot)
	}
	return p.ground
}

// placement returns what a replica takes of its hosts: what its own generation asked for, as far as that is known.
func (p *planner) placement(r *fleet.Replica) *fleet.PlacementSpec {
	m := p.models[r.Model]
	if p.Specs != nil && (m == nil || m.Generation != r.Generation) {
		if spec := p.Specs(r.Model, r.Generation); spec != nil {
			return &spec.Placement
		}
	}
	if m == nil {
		return &fleet.PlacementSpec{}
	}
	return &m.Spec.Placement
}

func (p *planner) finder(m *fleet.Model) *finder {
	return p.room().finder(&m.Spec, p.replicas[m.Name()])
}

// model plans one model: what has failed is ended or started again first, then what is too much is stopped, then what is missing is placed.
func (p *planner) model(m *fleet.Model) {
	c := p.cast(m)
	p.keeper.settles(c)
	if c.want == 0 {
		p.stopAll(c)
		return
	}
	if p.repair(c) {
		return // a replica ends as failed; what replaces it waits for the back-off that this failure starts
	}
	p.scaleDown(c)
	p.retire(c)
	p.unload(c)
	if n := c.toPlace(); n > 0 {
		p.place(c, n)
	} else if c.turn() {
		p.turnOver(c)
	}
}

func (p *planner) stop(r *fleet.Replica, reason string) {
	p.plan.Items = append(p.plan.Items, fleet.PlanItem{Stop: &fleet.StopItem{Replica: r.ID, Reason: reason}})
}

// stopAll ends every replica of a model that is being deleted or wanted at zero, those on unreachable nodes too. Only a deletion overrides a
// conditional drain, which ends by itself otherwise.
func (p *planner) stopAll(c *cast) {
	reason := "scaled to zero"
	if c.model.Deleting {
		reason = "model deleted"
	}
	for _, r := range p.replicas[c.model.Name()] {
		conditional := r.State == fleet.DrainingDown && r.Drain != nil && r.Drain.Mark != nil
		if r.State.Live() && !p.preempted[r.ID] || conditional && c.model.Deleting {
			p.stop(r, reason)
		}
	}
}

// place looks for room for n replicas of the present generation, one after the other, and explains the first that it cannot place.
func (p *planner) place(c *cast, n int) {
	name := c.model.Name()
	if why := c.held(p.Backoff.Models[name]); why != "" {
		p.refuse(c, fleet.Refusal{Reason: why})
		return
	}
	f := p.finder(c.model)
	for range n {
		shards, ok := f.find()
		if !ok {
			p.noRoom(c, f)
			return
		}
		if c.model.Want == 0 {
			p.plan.Items = append(p.plan.Items, fleet.PlanItem{Wake: &fleet.WakeItem{Model: name}})
		}
		f.claim(shards)
		p.claims = append(p.claims, claim{shards, &c.model.Spec.Placement})
		c.placed++
		p.plan.Items = append(p.plan.Items, fleet.PlanItem{Place: &fleet.PlaceItem{Model: name, Generation: c.model.Generation, Shards: shards}})
	}
	if p.Frozen {
		c.placed = 0
		p.refuse(c, fleet.Refusal{Reason: "there is room, but the fleet is frozen"})
	}
}

// noRoom explains why there is no room, or makes some where that is allowed: a rollout may drain an old replica first. Room that the model's
// own drains are about to give back is on its way, and no refusal.
func (p *planner) noRoom(c *cast, f *finder) {
	if r, ok := p.saidBefore(c); ok {
		p.refuse(c, r)
		return
	}
	if c.placed == 0 && p.drainFirst(c, f) || c.underWay() || p.waitFor(c.model.Name(), f, c.ending) {
		return
	}
	if p.makeRoom(c, f) || p.preempt(c, f) {
		return
	}
	p.keep(c, f)
	r := p.explain(c.model.Name(), f)
	r.Reason += p.notYet(c)
	if c.missing() == 0 {
		r.Reason = c.waiting() + "; " + r.Reason
	}
	p.say(c, r)
	p.refuse(c, r)
}

func (p *planner) refuse(c *cast, r fleet.Refusal) {
	r.Model, r.Short = c.model.Name(), c.missing()
	p.plan.Refusals = append(p.plan.Refusals, r)
}
