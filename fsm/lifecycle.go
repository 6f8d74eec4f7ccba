package fsm

import (
	"berth/fleet"
)

// longEnough is how long a replica must have been ready for its restarts to be forgotten: restarts are counted "in a row".
const longEnough = fleet.Time(10 * 60 * 1000) // milliseconds

// becomeReady makes a replica ready. It proves that the model can run, so the failed rows of older replicas have nothing more to say.
func (tx *txn) becomeReady(r *fleet.Replica) {
	tx.enter(r, fleet.Ready)
	r.Reason = ""
	tx.dropFailed(r.Model, 0)
}

// leaveReady makes a replica that no longer serves start again in place.
func (tx *txn) leaveReady(r *fleet.Replica) {
	if r.State == fleet.Ready && tx.meta.At-r.StateAt >= longEnough {
		r.Restarts = 0
	}
	tx.enter(r, fleet.Starting)
}

// drain orders a replica to stop. Every stop has its own index, so that an answer to an older order can be told apart.
func (tx *txn) drain(r *fleet.Replica, reason, failed string, mark *fleet.Mark) {
	spec := tx.specOf(r)
	reason, failed = clip(reason, maxReason), clip(failed, maxReason)
	r.Drain = &fleet.Drain{Reason: reason, Minimum: spec.Drain.Minimum, Deadline: spec.Drain.Deadline, At: tx.meta.At, Mark: mark, Failed: failed}
	r.Reason = reason
	r.Order = tx.at
	tx.enter(r, fleet.DrainingDown)
}

// leastDeadline bounds the end of a gang that is broken: what is in flight there waits for a rank that will never answer.
const leastDeadline = fleet.Duration(1_000_000_000)

// failNow ends a replica as failed. Its ranks are ordered to stop, without waiting for a door that has nothing behind it; the claims stay until
// each of them is proved released. A stop that was ordered already keeps its index: its answers are on the way.
func (tx *txn) failNow(r *fleet.Replica, reason string) {
	reason = clip(reason, maxReason)
	if r.State.Live() || r.Drain == nil {
		spec := tx.specOf(r)
		r.Drain = &fleet.Drain{Deadline: max(spec.Drain.Minimum, leastDeadline), At: tx.meta.At}
		r.Order = tx.at
	} else {
		d := *r.Drain
		d.Mark = nil
		r.Drain = &d
	}
	r.Drain.Reason, r.Drain.Failed, r.Drain.DoorShut = reason, reason, true
	r.Reason = reason
	tx.enter(r, fleet.Failed)
}

// specOf returns what the replica runs by: the spec of its generation.
func (tx *txn) specOf(r *fleet.Replica) fleet.ModelSpec {
	if s, ok := tx.specs.get(specKey(r.Model, r.Generation)); ok {
		return *s
	}
	return fleet.DefaultedSpec()
}

// settle writes a replica after some of its claims may have been released: its row goes when all are, unless it failed, and its model's row goes
// with the last replica.
func (tx *txn) settle(r *fleet.Replica) {
	if !r.Released() {
		tx.putReplica(r)
		tx.remarkShards(r)
		return
	}
	if r.Drain != nil && r.Drain.Failed != "" || r.State == fleet.Failed {
		if r.State != fleet.Failed {
			r.Reason = r.Drain.Failed
			tx.enter(r, fleet.Failed)
		}
		tx.putReplica(r)
		tx.remarkShards(r)
		keep := maxFailedRows
		if m, ok := tx.models.get(r.Model); !ok || m.Deleting {
			keep = 0
		}
		tx.dropFailed(r.Model, keep)
	} else {
		tx.removeReplica(r)
		tx.remarkShards(r)
	}
	tx.endModel(r.Model)
}

// remarkShards computes marks again where a release may have ended an overcommitment.
func (tx *txn) remarkShards(r *fleet.Replica) {
	for _, shard := range r.Shards {
		tx.remarkNode(shard.Node)
	}
}

// removeReplica removes a row, and the spec of its generation if it was the last of it.
func (tx *txn) removeReplica(r *fleet.Replica) {
	tx.delReplica(r)
	tx.dropSpec(r.Model, r.Generation)
}

func (tx *txn) stopReplica(c ReplicaStop) *fleet.Error {
	return tx.stop(fleet.StopItem{Replica: c.Replica, Reason: c.Reason})
}

// restartReplica starts all ranks again under a new start number.
func (tx *txn) restartReplica(c ReplicaRestart) *fleet.Error {
	old, ok := tx.replicas.get(c.Replica)
	switch {
	case !ok:
		return noReplica(c.Replica)
	case !old.State.Live():
		return fleet.Errorf(fleet.Conflict, "the replica %s is %s; only one that runs can be restarted", c.Replica, old.State)
	}
	r := tx.edited(old)
	tx.startAgain(r, c.Reason)
	tx.putReplica(r)
	return nil
}

// startAgain gives a replica a new start number. The exits of the start before are cleared: one that is there means that this start is broken.
func (tx *txn) startAgain(r *fleet.Replica, reason string) {
	tx.leaveReady(r)
	r.Start++
	r.Order, r.Master, r.Door, r.Reason = tx.at, "", nil, clip(reason, maxReason)
	for i := range r.Shards {
		r.Shards[i].Exit = nil
	}
}

func (tx *txn) failReplica(c ReplicaFail) *fleet.Error {
	old, ok := tx.replicas.get(c.Replica)
	if !ok {
		return noReplica(c.Replica)
	}
	if c.Reason == "" {
		return fleet.Errorf(fleet.BadRequest, "a replica fails for a reason; give one")
	}
	if old.State == fleet.Failed {
		return nil
	}
	r := tx.edited(old)
	tx.failNow(r, c.Reason)
	tx.settle(r)
	return nil
}

// withdrawStop makes a replica in a conditional drain ready again. The order to run has an index of its own: the door may have shut unheard, and its
// word on the drain is then an answer to an older order. The engine that has ended meanwhile is started again.
// (DESIGN §8, rule 12.)
func (tx *txn) withdrawStop(c ReplicaWithdraw) *fleet.Error {
	old, ok := tx.replicas.get(c.Replica)
	switch {
	case !ok:
		return noReplica(c.Replica)
	case old.Order != c.Order:
		return fleet.Errorf(fleet.Changed, "the order to the replica %s is %s by now, not %s", c.Replica, old.Order, c.Order)
	case old.State != fleet.DrainingDown || old.Drain.Mark == nil || old.Drain.DoorShut:
		return fleet.Errorf(fleet.Conflict, "the replica %s is not in a conditional drain whose door is open", c.Replica)
	}
	r := tx.edited(old)
	tx.takeBack(r, c.Reason)
	r.Order = tx.at
	tx.putReplica(r)
	return nil
}

func noReplica(id string) *fleet.Error {
	return fleet.Errorf(fleet.NotFound, "there is no replica %s", id).WithHint("berthctl replicas lists them")
}
