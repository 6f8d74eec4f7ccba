package scheduler

import (
	"maps"
	"slices"

	"berth/fleet"
	"berth/scheduler/capacity"
	"berth/scheduler/frag"
)

// Planner plans exactly as Plan does, and keeps the fleet's cards and the order of its hosts from one plan to the next: a plan then costs what has changed
// since, and a look at each row to see whether it is the same pointer. Rows must not be written to once a snapshot has held them. The zero value is ready;
// it is not safe for concurrent use.
type Planner struct {
	ground *ground
	nodes  []*fleet.Node
	held   []holding
	models []*fleet.Model
	asked  []frag.Asked

	named map[string]*fleet.Node // nodes by name
	sound map[*fleet.Replica]bool
}

// holding is what one replica takes on the ground.
type holding struct {
	replica *fleet.Replica
	takes   fleet.PlacementSpec // CPUs and memory only
}

// Plan is Plan.
func (k *Planner) Plan(s Snapshot) fleet.Plan {
	if !slices.Equal(k.nodes, s.Nodes) {
		*k = Planner{nodes: s.Nodes, named: byName(s.Nodes)}
	}
	if len(k.sound) > 2*len(s.Replicas) || k.sound == nil {
		k.sound = make(map[*fleet.Replica]bool, len(s.Replicas))
	}
	p := newPlannerOn(s, k.named)
	p.keeper = k
	p.run()
	for _, c := range slices.Backward(p.claims) { // what of it comes true is in the next snapshot
		k.ground.cards.Release(c.shards, c.takes)
	}
	return p.plan
}

// claim is room that a plan has taken on paper.
type claim struct {
	shards []fleet.Shard
	takes  *fleet.PlacementSpec
}

// knowsSound says whether it is known that a replica can stay where it is: its nodes are the same rows as when that was found out.
func (k *Planner) knowsSound(r *fleet.Replica) bool { return k != nil && k.sound[r] }

func (k *Planner) isSound(r *fleet.Replica) {
	if k != nil {
		k.sound[r] = true
	}
}

// lay brings the ground up to date with a plan's snapshot, or makes it when there is none.
func (k *Planner) lay(p *planner) *ground {
	if k.ground == nil {
		g := newGround(capacity.New(p.Nodes, p.Snapshot.Replicas, p.placement), &p.Snapshot)
		for _, r := range p.Snapshot.Replicas {
			k.held = append(k.held, p.holding(r))
		}
		k.ground, k.models, k.asked = g, p.Models, p.Snapshot.Asked
		return g
	}
	k.claims(p)
	k.wishes(&p.Snapshot)
	return k.ground
}

func (p *planner) holding(r *fleet.Replica) holding {
	takes := p.placement(r)
	return holding{r, fleet.PlacementSpec{CPUs: takes.CPUs, Memory: takes.Memory}}
}

func (h *holding) same(o *holding) bool {
	return h.replica == o.replica && h.takes.CPUs == o.takes.CPUs && h.takes.Memory == o.takes.Memory
}

// claims goes through the old and the new replicas, both in the order of their ids, and releases and claims what is not the same.
func (k *Planner) claims(p *planner) {
	next, cards := make([]holding, 0, len(p.Snapshot.Replicas)), k.ground.cards
	i := 0
	for _, r := range p.Snapshot.Replicas {
		for i < len(k.held) && k.held[i].replica.ID < r.ID {
			cards.Release(k.held[i].replica.Shards, &k.held[i].takes)
			i++
		}
		h := p.holding(r)
		if i < len(k.held) && k.held[i].replica.ID == r.ID {
			if old := &k.held[i]; !old.same(&h) {
				cards.Release(old.replica.Shards, &old.takes)
				cards.Claim(r.Shards, &h.takes)
			}
			i++
		} else {
			cards.Claim(r.Shards, &h.takes)
		}
		next = append(next, h)
	}
	for ; i < len(k.held); i++ {
		cards.Release(k.held[i].replica.Shards, &k.held[i].takes)
	}
	k.held = next
}

// wishes keeps what was worked out of the hosts' order for as long as that goes by the same demand, holds, faults and weights.
func (k *Planner) wishes(s *Snapshot) {
	g := k.ground
	sameAsked := s.Asked != nil && len(s.Asked) == len(k.asked) && (len(s.Asked) == 0 || &s.Asked[0] == &k.asked[0]) ||
		s.Asked == nil && k.asked == nil && slices.Equal(k.models, s.Models)
	if !sameAsked || !sameKeys(g.backoff.Nodes, s.Backoff.Nodes) || !maps.Equal(g.faults, s.Faults) {
		k.ground = newGround(g.cards, s)
	} else {
		k.ground = g.with(s)
	}
	k.models, k.asked = s.Models, s.Asked
}

// sameKeys says whether the same things are held back; for how long still makes no difference to a plan.
func sameKeys(a, b map[string]Hold) bool {
	held := func(m map[string]Hold) (n int) {
		for _, h := range m {
			if h.For > 0 {
				n++
			}
		}
		return n
	}
	for key, h := range a {
		if h.For > 0 && b[key].For <= 0 {
			return false
		}
	}
	return held(a) == held(b)
}
