package scheduler

import (
	"slices"

	"berth/fleet"
)

// Planner plans exactly as Plan does, and keeps what it knows of the fleet from one plan to the next: who runs where, which models lack nothing, the cards
// and the order of the hosts. A plan then costs what has changed since, where the snapshot says what that is, and else a look at each row to see whether it
// is the same pointer. Rows must not be written to once a snapshot has held them. The zero value is ready; it is not safe for concurrent use.
type Planner struct {
	watched watched
	rows    index
	open    map[string]*fleet.Model // models for which there may be something to do; for the rest there is nothing, whatever these do
	sound   map[*fleet.Replica]bool
	laid    laid
}

// Plan is Plan.
func (k *Planner) Plan(s Snapshot) fleet.Plan {
	if k.rows.models == nil {
		k.rows, k.open, k.sound = newIndex(), map[string]*fleet.Model{}, map[*fleet.Replica]bool{}
	}
	c := k.watched.changes(&s)
	k.follow(c)
	k.laid.follow(k, c)
	p := &planner{Snapshot: s, nodes: k.rows.nodes, models: k.rows.models, replicas: k.rows.byModel, onNode: k.rows.onNode, keeper: k}
	p.run()
	for _, c := range slices.Backward(p.claims) { // what of it comes true is in the next snapshot
		k.laid.ground.cards.Release(c.shards, c.takes)
	}
	return p.plan
}

// follow takes the changed rows in, and with them the models for which there may be something to do again.
func (k *Planner) follow(c *Changes) {
	k.rows.apply(c)
	for _, row := range c.Models {
		k.opens(row.key((*fleet.Model).Name))
	}
	for _, row := range c.Replicas {
		if row.Old != nil {
			k.opens(row.Old.Model)
			delete(k.sound, row.Old)
		}
		if row.New != nil {
			k.opens(row.New.Model)
		}
	}
	for _, row := range c.Nodes {
		for _, r := range k.rows.onNode[row.key(nodeName)] {
			k.opens(r.Model)
			delete(k.sound, r)
		}
	}
}

func (k *Planner) opens(model string) {
	if m := k.rows.models[model]; m != nil {
		k.open[model] = m
	} else {
		delete(k.open, model)
	}
}

// claim is room that a plan has taken on paper.
type claim struct {
	shards []fleet.Shard
	takes  *fleet.PlacementSpec
}

// knowsSound says whether it is known that a replica can stay where it is: its nodes are the same rows as when that was found out.
func (k *Planner) knowsSound(r *fleet.Replica) bool { return k != nil && k.sound[r] }

// isSound notes it, unless the replica has left a node already, whose changes would not be seen.
func (k *Planner) isSound(r *fleet.Replica) {
	if k != nil && !slices.ContainsFunc(r.Shards, func(s fleet.Shard) bool { return s.Released }) {
		k.sound[r] = true
	}
}

// settles notes whether nothing is to be done for a model until a row of it, of its replicas or of their nodes changes, or requests wait for it.
func (k *Planner) settles(c *cast) {
	if k != nil && c.settled() {
		delete(k.open, c.model.Name())
	}
}

// settled says whether a model has all that it wants, where and as it wants it, and lets nothing go by itself.
func (c *cast) settled() bool {
	m := c.model
	if m.Deleting || c.want != m.Want || len(c.staying) != c.want || c.lost != nil || c.leaving != nil || c.failed != nil || m.Spec.Idle.UnloadAfter > 0 {
		return false
	}
	for _, r := range c.staying {
		if exited(r) >= 0 || len(r.Shards) == 1 && r.Restarts > m.Spec.Start.MaxRestarts {
			return false
		}
	}
	return true
}
