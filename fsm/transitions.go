package fsm

import (
	"slices"
	"strings"

	"berth/fleet"
	"berth/fleet/wire"
)

// applyTransitions takes in a batch of reports. The batch is refused as a whole when it comes from another life of the agent than the
// registered one; otherwise each report is accepted or refused alone.
func (tx *txn) applyTransitions(c ReplicaTransitions) result {
	n, ok := tx.nodes.get(c.Node)
	switch {
	case !ok:
		return result{err: noNode(c.Node)}
	case n.Awaited():
		return result{err: fleet.Errorf(fleet.StaleEpoch, "the node %s has not registered since the restore", c.Node).WithHint("register first")}
	case n.Instance != c.Instance:
		return result{err: fleet.Errorf(fleet.StaleEpoch, "the node %s has instance %d registered; this report is from instance %d", c.Node, n.Instance, c.Instance).
			WithHint("register first")}
	}
	r := result{items: make([]*fleet.Error, len(c.Items))}
	for i, t := range c.Items {
		r.items[i] = tx.transition(c.Node, t)
	}
	return r
}

// transition checks that a report answers the newest order of the shard that it speaks for, and then takes it in.
// (DESIGN §8, rule 10: an answer to an older order is refused.)
func (tx *txn) transition(node string, t wire.Transition) *fleet.Error {
	old, ok := tx.replicas.get(t.Replica)
	switch {
	case !ok:
		return noReplica(t.Replica)
	case t.Rank < 0 || t.Rank >= len(old.Shards) || old.Shards[t.Rank].Node != node:
		return fleet.Errorf(fleet.Conflict, "rank %d of the replica %s is not on the node %s", t.Rank, t.Replica, node)
	case t.Order != old.Order:
		return fleet.Errorf(fleet.StaleEpoch, "the report answers the order %s; the newest for %s is %s", t.Order, t.Replica, old.Order)
	case t.Start != old.Start:
		return fleet.Errorf(fleet.StaleEpoch, "the report is of start %d; %s is at start %d", t.Start, t.Replica, old.Start)
	case old.Shards[t.Rank].Released:
		return fleet.Errorf(fleet.Conflict, "rank %d of the replica %s has ended", t.Rank, t.Replica)
	}
	t.Reason = clip(t.Reason, maxReason)
	r := tx.edited(old)
	shard := &r.Shards[t.Rank]
	if t.Shim != 0 {
		shard.Shim = t.Shim
	}
	if t.Exit != nil {
		shard.Exit = clipExit(t.Exit)
	}
	if err := tx.step(r, t); err != nil {
		return err
	}
	if shard.Released {
		tx.settle(r)
	} else {
		tx.putIfDifferent(old, r)
	}
	return nil
}

// step changes the copy of the replica as the report says.
func (tx *txn) step(r *fleet.Replica, t wire.Transition) *fleet.Error {
	switch t.To {
	case wire.BecameStarting:
		return tx.starting(r, t)
	case wire.BecameReady:
		return tx.ready(r, t)
	case wire.BecameExited:
		tx.exited(r, t)
		return nil
	case wire.BecameShut:
		return shut(r, t)
	case wire.BecameWithdrawn:
		return tx.withdrawn(r, t)
	case wire.BecameStopped:
		tx.stopped(r, t)
		return nil
	case wire.BecameFailed:
		tx.failed(r, t)
		return nil
	default:
		return fleet.Errorf(fleet.BadRequest, "a report cannot say %q", t.To)
	}
}

func (tx *txn) starting(r *fleet.Replica, t wire.Transition) *fleet.Error {
	if r.State == fleet.Failed {
		return fleet.Errorf(fleet.Conflict, "the replica %s has failed", r.ID)
	}
	r.Restarts = max(r.Restarts, t.Restarts)
	if t.Rank != 0 {
		return nil
	}
	if t.Door != nil {
		r.Door = t.Door
	}
	if t.Master != "" {
		r.Master = t.Master
	}
	if r.State.Live() {
		tx.leaveReady(r)
	}
	return nil
}

// ready believes rank 0 alone: it has had a token from the whole gang. A replica that was ordered to stop in the meantime stays so.
func (tx *txn) ready(r *fleet.Replica, t wire.Transition) *fleet.Error {
	if t.Rank != 0 || r.State != fleet.Starting {
		return nil
	}
	if t.Door != nil {
		r.Door = t.Door
	}
	if r.Door == nil {
		return fleet.Errorf(fleet.Conflict, "the replica %s is ready but has told no door", r.ID)
	}
	tx.becomeReady(r)
	return nil
}

// exited counts a restart of a single-node replica, whose shim starts the engine again by itself. A gang waits for the planner, which sees the
// exit on the shard. One whose end was ordered has no more to say than its exit.
func (tx *txn) exited(r *fleet.Replica, t wire.Transition) {
	if !r.State.Live() {
		return
	}
	tx.leaveReady(r)
	if len(r.Shards) == 1 {
		r.Restarts = max(r.Restarts+1, t.Restarts)
	}
	if r.Shards[t.Rank].Exit == nil {
		r.Shards[t.Rank].Exit = &fleet.Exit{Code: -1, At: tx.meta.At}
	}
}

// shut says that rank 0 takes nothing more and has nothing in flight: the other ranks may end.
// (DESIGN §8, rule 12.)
func shut(r *fleet.Replica, t wire.Transition) *fleet.Error {
	if t.Rank != 0 || r.Drain == nil {
		return fleet.Errorf(fleet.Conflict, "the replica %s is %s; nothing has ordered its door to shut", r.ID, r.State)
	}
	shutDoor(r)
	return nil
}

// shutDoor marks the drain of a copy; the Drain itself is shared with the row that it was copied from.
func shutDoor(r *fleet.Replica) {
	d := *r.Drain
	d.DoorShut = true
	r.Drain = &d
}

// withdrawn ends a conditional drain: somebody knocked at the door since the reading that the verdict rested on. The order keeps its index,
// which the agent goes on answering, and is one to run again.
// (DESIGN §8, rule 11.)
func (tx *txn) withdrawn(r *fleet.Replica, t wire.Transition) *fleet.Error {
	if t.Rank != 0 || r.State != fleet.DrainingDown || r.Drain.Mark == nil || r.Drain.DoorShut {
		return fleet.Errorf(fleet.Conflict, "the replica %s is not in a conditional drain whose door is open", r.ID)
	}
	tx.takeBack(r, "asked for again")
	return nil
}

// takeBack ends the conditional drain of a copy.
func (tx *txn) takeBack(r *fleet.Replica, reason string) {
	r.Drain = nil
	tx.enter(r, fleet.Ready)
	r.Reason = clip(reason, maxReason)
	tx.wantAgain(r)
}

// wantAgain takes back a lowered wanted number, otherwise the planner would drain as surplus what somebody has just asked for.
func (tx *txn) wantAgain(r *fleet.Replica) {
	old, ok := tx.models.get(r.Model)
	if !ok || old.Generation != r.Generation {
		return
	}
	live := 1 // r itself, which the tables still have as draining
	for _, o := range tx.byModel.rows(key(r.Model, "")) {
		if o.ID != r.ID && o.Generation == r.Generation && o.State.Live() {
			live++
		}
	}
	if want := min(live, old.Spec.Replicas.Max); want > old.Want {
		m := *old
		m.Want = want
		tx.putModel(&m)
	}
}

// stopped says that the shard has ended. Only the end of one that was ordered to end releases its claims; any other is an exit, and the order to
// run stands.
func (tx *txn) stopped(r *fleet.Replica, t wire.Transition) {
	if r.State.Live() {
		tx.exited(r, t)
		return
	}
	if t.Rank == 0 && r.Drain != nil {
		shutDoor(r)
	}
	r.Shards[t.Rank].Released = t.Released
}

func (tx *txn) failed(r *fleet.Replica, t wire.Transition) {
	reason := t.Reason
	if reason == "" {
		reason = "it cannot run on " + r.Shards[t.Rank].Node
	}
	if r.State != fleet.Failed {
		tx.failNow(r, reason)
	}
	if strings.HasPrefix(reason, markStuck) && !slices.Contains(r.Marks, markStuck) {
		r.Marks = append(r.Marks, markStuck)
	}
	r.Shards[t.Rank].Released = t.Released
}
