package fsm

import (
	"fmt"

	"berth/fleet"
)

// applyPlan applies the items of a plan one by one, each against the state that the ones before it have left. The planner worked on a snapshot;
// what no longer fits is refused alone, and planned again.
func (tx *txn) applyPlan(c PlanApply) result {
	r := result{items: make([]*fleet.Error, len(c.Plan.Items))}
	for i, item := range c.Plan.Items {
		tx.items = i + 1
		r.items[i] = tx.applyItem(item)
	}
	return r
}

func (tx *txn) applyItem(item fleet.PlanItem) *fleet.Error {
	set := 0
	for _, is := range []bool{item.Place != nil, item.Stop != nil, item.Restart != nil, item.Wake != nil} {
		if is {
			set++
		}
	}
	switch {
	case set != 1:
		return fleet.Errorf(fleet.BadRequest, "a plan's item decides %d things; it must be exactly one", set)
	case item.Place != nil:
		return tx.place(*item.Place)
	case item.Stop != nil:
		return tx.stop(*item.Stop)
	case item.Restart != nil:
		return tx.restart(*item.Restart)
	default:
		return tx.wake(*item.Wake)
	}
}

// place adds a replica and all its claims, or nothing.
func (tx *txn) place(p fleet.PlaceItem) *fleet.Error {
	m, err := tx.checkPlace(p)
	if err != nil {
		return err
	}
	shards := make([]fleet.Shard, len(p.Shards))
	for i, s := range p.Shards {
		shards[i] = fleet.Shard{Node: s.Node, Claims: s.Claims} // a planner has no word on the rest of a shard
	}
	r := &fleet.Replica{
		ID:    fmt.Sprintf("r-%d.%d.%d", tx.at.Epoch, tx.at.N, tx.items),
		Model: p.Model, Generation: m.Generation, RunHash: m.Spec.RunHash(),
		State: fleet.Starting, Shards: shards, Start: 1, Order: tx.at,
		CreatedAt: tx.meta.At, StateAt: tx.meta.At, Changed: tx.at,
	}
	tx.putReplica(r)
	return nil
}

// stop drains a replica. An unconditional stop takes the place of a conditional one; any other second stop is refused, because the first is on
// its way with its own deadline.
func (tx *txn) stop(s fleet.StopItem) *fleet.Error {
	old, ok := tx.replicas.get(s.Replica)
	if !ok {
		return noReplica(s.Replica)
	}
	switch {
	case old.State == fleet.Failed && old.Released():
		tx.removeReplica(old) // nothing runs: to stop it is to clear it away
		tx.endModel(old.Model)
		return nil
	case old.State == fleet.Failed:
		return fleet.Errorf(fleet.Conflict, "the replica %s has failed and is being ended", s.Replica)
	case old.State == fleet.DrainingDown && (old.Drain.Mark == nil || s.Mark != nil):
		return fleet.Errorf(fleet.Conflict, "the replica %s is draining already, since index %s", s.Replica, old.Order)
	case s.Mark != nil && old.State != fleet.Ready:
		return fleet.Errorf(fleet.Conflict, "the replica %s is %s; only a ready one is stopped for being quiet", s.Replica, old.State)
	}
	r := tx.edited(old)
	tx.drain(r, s.Reason, s.Failed, s.Mark)
	tx.putReplica(r)
	if s.Want != nil {
		tx.lowerWant(r.Model, *s.Want)
	}
	return nil
}

// lowerWant lowers a model's wanted number, never below what its spec asks for.
func (tx *txn) lowerWant(model string, want int) {
	old, ok := tx.models.get(model)
	if !ok {
		return
	}
	if want = max(want, old.Spec.Replicas.Min); want < old.Want {
		m := *old
		m.Want = want
		tx.putModel(&m)
	}
}

func (tx *txn) restart(item fleet.RestartItem) *fleet.Error {
	old, ok := tx.replicas.get(item.Replica)
	switch {
	case !ok:
		return noReplica(item.Replica)
	case !old.State.Live():
		return fleet.Errorf(fleet.Conflict, "the replica %s is %s; only one that runs can be started again", item.Replica, old.State)
	case item.Start != old.Start+1:
		return fleet.Errorf(fleet.Changed, "the replica %s is at start %d; the next is %d, not %d", item.Replica, old.Start, old.Start+1, item.Start)
	}
	r := tx.edited(old)
	tx.startAgain(r, item.Reason)
	r.Restarts++
	tx.putReplica(r)
	return nil
}

// wake raises a model from zero to one, because requests wait for it.
func (tx *txn) wake(w fleet.WakeItem) *fleet.Error {
	old, ok := tx.models.get(w.Model)
	switch {
	case !ok || old.Deleting:
		return noModel(w.Model)
	case old.Want > 0:
		return nil
	}
	m := *old
	m.Want = 1
	tx.putModel(&m)
	return nil
}
