package scheduler

import (
	"berth/fleet"
	"berth/scheduler/frag"
)

// Placer finds room for one replica after another on a fleet that it keeps in mind: the part of a Planner that decides where, without the part that decides
// what. Each decision sees the ones before it. It is not safe for concurrent use.
type Placer struct {
	ground   *ground
	snapshot Snapshot
}

// NewPlacer lays out a snapshot's nodes and what its replicas claim.
func NewPlacer(s Snapshot) *Placer {
	p := newPlanner(s)
	return &Placer{ground: p.room(), snapshot: s}
}

// Place takes room for one replica and returns its shards, rank by rank; false when there is none.
func (p *Placer) Place(spec *fleet.ModelSpec) ([]fleet.Shard, bool) {
	f := p.ground.finder(spec, nil)
	shards, ok := f.find()
	if ok {
		f.claim(shards)
	}
	return shards, ok
}

// Release gives back what Place took.
func (p *Placer) Release(spec *fleet.ModelSpec, shards []fleet.Shard) {
	p.ground.cards.Release(shards, &spec.Placement)
}

// Asked tells what the cluster was asked for lately. Nothing is measured anew when it is the very answer that a History gave before.
func (p *Placer) Asked(asked []frag.Asked) {
	if len(asked) == len(p.snapshot.Asked) && (len(asked) == 0 || &asked[0] == &p.snapshot.Asked[0]) {
		return
	}
	p.snapshot.Asked = asked
	p.ground = newGround(p.ground.cards, &p.snapshot)
}
