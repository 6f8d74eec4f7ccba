package fsm

import (
	"slices"
	"strings"

	"berth/fleet"
	"berth/fleet/wire"
)

// adopt takes an engine that was found running and of which the state knows nothing for a replica of one of its models, when it was started
// in an epoch before: the state was restored from a time when it was not there yet. It must be what the model asks for today, by the hash of all
// that an engine depends on. Whatever else is found is nobody's, holds its cards, and is never killed for that.
func (tx *txn) adopt(node string, run wire.Running) bool {
	generation, spec, ok := tx.specOfRun(run)
	if !ok || spec.Placement.Nodes != 1 || run.Rank != 0 {
		return false
	}
	r := &fleet.Replica{
		ID: run.Replica, Model: run.Model, Generation: generation, RunHash: run.RunHash, State: fleet.Starting, Reason: "adopted after a restore",
		Shards: []fleet.Shard{{Node: node, Claims: run.Claims, Shim: run.Shim}}, Door: run.Door, Start: run.Start, Order: tx.at,
		CreatedAt: tx.meta.At, StateAt: tx.meta.At, Changed: tx.at,
	}
	if run.Ready && r.Door != nil {
		tx.becomeReady(r)
	}
	tx.putReplica(r)
	if spec.Idle.UnloadAfter > 0 {
		tx.wantAgain(r) // it was woken after the state that was restored, and goes again when nobody asks for it
	}
	return true
}

// specOfRun returns what an engine of an earlier epoch runs by, if that is still wanted.
func (tx *txn) specOfRun(run wire.Running) (uint64, *fleet.ModelSpec, bool) {
	if _, known := tx.replicas.get(run.Replica); known || run.Replica == "" || strings.Contains(run.Replica, separator) {
		return 0, nil, false // of ours, but not like this: another rank, another node, or ended
	}
	m, ok := tx.models.get(run.Model)
	if !ok || m.Deleting || run.Order.Epoch >= tx.at.Epoch {
		return 0, nil, false
	}
	for k, spec := range tx.specs.prefix(key(run.Model, "")) {
		if spec.RunHash() == run.RunHash {
			return generationOf(k), spec, true
		}
	}
	return 0, nil, false
}

// giveWay ends a replica that was restored, but whose node has something else on its cards: it was stopped after the state that was restored, and
// its cards were given to others. To start it again would be to fight for them. That the node does not list it proves that nothing of it is left
// there.
func (tx *txn) giveWay(node string, old *fleet.Replica, foreign map[string]bool) bool {
	rank := old.Rank(node)
	held := slices.ContainsFunc(old.Shards[rank].Claims, func(c fleet.Claim) bool { return foreign[c.GPU] })
	if !unconfirmed(old) || !old.State.Live() || old.Shards[rank].Released || !held {
		return false
	}
	r := tx.edited(old)
	tx.drain(r, "it ended before the restore, and its cards have others on them", "", nil)
	r.Shards[rank].Released = true
	if rank == 0 {
		shutDoor(r)
	}
	tx.settle(r)
	return true
}
