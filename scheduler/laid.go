package scheduler

import (
	"maps"
	"reflect"

	"berth/fleet"
	"berth/scheduler/capacity"
	"berth/scheduler/frag"
)

// laid is the ground of a Planner: laid out when a plan first looks for room, and then brought up to date when one does again.
type laid struct {
	ground *ground
	held   map[string]holding // by replica: what it takes on the ground
	asked  []frag.Asked
	stale  bool                   // what the models ask for is other than the ground's meter goes by, where nobody says what was asked for
	moved  map[string]bool        // replicas to look at again
	others map[string]*fleet.Node // nodes whose rows are others
}

// holding is what one replica takes on the ground.
type holding struct {
	replica *fleet.Replica
	takes   fleet.PlacementSpec // CPUs and memory only
}

func (h *holding) same(o *holding) bool {
	return h.replica == o.replica && h.takes.CPUs == o.takes.CPUs && h.takes.Memory == o.takes.Memory
}

// follow notes what is to be brought up to date. A node that is new, gone, or another in what admits models to it makes the ground of no use.
func (l *laid) follow(k *Planner, c *Changes) {
	if l.ground == nil {
		return
	}
	for _, row := range c.Nodes {
		if row.Old == nil || row.New == nil || !alike(row.Old, row.New) {
			*l = laid{}
			return
		}
		l.others[row.New.Name] = row.New
	}
	for _, row := range c.Replicas {
		l.moved[row.key(replicaID)] = true
	}
	for _, row := range c.Models {
		l.stale = true
		if takesTheSame(row) {
			continue
		}
		for _, r := range k.rows.byModel[row.key((*fleet.Model).Name)] {
			l.moved[r.ID] = true // what an older generation takes is known from its model's row
		}
	}
}

// takesTheSame says whether what a model's replicas take of their hosts is as it was.
func takesTheSame(row Row[fleet.Model]) bool {
	if row.Old == nil || row.New == nil || row.Old.Generation != row.New.Generation {
		return false
	}
	a, b := &row.Old.Spec.Placement, &row.New.Spec.Placement
	return a.CPUs == b.CPUs && a.Memory == b.Memory
}

// alike says whether two rows of a node differ in nothing that a finder or a meter keeps: only in its state, and in the condition of its cards.
func alike(a, b *fleet.Node) bool {
	x, y := &a.Inventory, &b.Inventory
	if a.Fabric() != b.Fabric() || x.CPUs != y.CPUs || x.Memory != y.Memory || len(x.GPUs) != len(y.GPUs) || !maps.Equal(a.Labels, b.Labels) ||
		!reflect.DeepEqual(a.Engines, b.Engines) || !reflect.DeepEqual(a.ModelRoots, b.ModelRoots) {
		return false
	}
	for i := range x.GPUs {
		g, h := &x.GPUs[i], &y.GPUs[i]
		if g.UUID != h.UUID || g.Index != h.Index || g.Memory != h.Memory || a.Class(*g) != b.Class(*h) {
			return false
		}
	}
	return true
}

// lay brings the ground up to date with a plan's snapshot, or makes it when there is none.
func (l *laid) lay(p *planner) *ground {
	if l.ground == nil {
		g := newGround(capacity.New(p.Nodes, p.Snapshot.Replicas, p.placement), &p.Snapshot)
		*l = laid{ground: g, held: make(map[string]holding, len(p.Snapshot.Replicas)), asked: p.Asked, moved: map[string]bool{}, others: map[string]*fleet.Node{}}
		for _, r := range p.Snapshot.Replicas {
			l.held[r.ID] = p.holding(r)
		}
		return g
	}
	l.claims(p)
	for name, n := range l.others {
		l.renew(p, name, n)
	}
	clear(l.others)
	l.wishes(&p.Snapshot)
	return l.ground
}

func (p *planner) holding(r *fleet.Replica) holding {
	takes := p.placement(r)
	return holding{r, fleet.PlacementSpec{CPUs: takes.CPUs, Memory: takes.Memory}}
}

// claims releases and claims what is not the same.
func (l *laid) claims(p *planner) {
	cards := l.ground.cards
	for id := range l.moved {
		old, held := l.held[id]
		r, there := p.replica(id)
		next := holding{}
		if there {
			if next = p.holding(r); held && old.same(&next) {
				continue
			}
		}
		if held {
			cards.Release(old.replica.Shards, &old.takes)
			delete(l.held, id)
		}
		if there {
			cards.Claim(r.Shards, &next.takes)
			l.held[id] = next
		}
	}
	clear(l.moved)
}

func (p *planner) replica(id string) (*fleet.Replica, bool) {
	i, ok := find(p.Snapshot.Replicas, id, replicaID)
	if !ok {
		return nil, false
	}
	return p.Snapshot.Replicas[i], true
}

// renew lays a node's newer row over its host.
func (l *laid) renew(p *planner, name string, n *fleet.Node) {
	var claims []capacity.Claimed
	for _, r := range p.holders()[name] {
		h := l.held[r.ID]
		claims = append(claims, capacity.Claimed{Shards: h.replica.Shards, Placement: &h.takes})
	}
	l.ground.cards.Renew(n, claims)
}

// wishes keeps what was worked out of the hosts' order for as long as that goes by the same demand, holds and faults.
func (l *laid) wishes(s *Snapshot) {
	g := l.ground
	sameAsked := s.Asked != nil && len(s.Asked) == len(l.asked) && (len(s.Asked) == 0 || &s.Asked[0] == &l.asked[0]) ||
		s.Asked == nil && l.asked == nil && !l.stale
	if !sameAsked || !sameKeys(g.backoff.Nodes, s.Backoff.Nodes) || !maps.Equal(g.faults, s.Faults) {
		l.ground = newGround(g.cards, s)
	} else {
		l.ground = g.with(s)
	}
	l.asked, l.stale = s.Asked, false
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
