package fsm

import (
	"fmt"
	"slices"
	"strings"

	"berth/fleet"
	"berth/fleet/wire"
)

// adopt takes an engine that was found running and of which the state knows nothing for a replica of one of its models, when it was started
// in an epoch before: the state was restored from a time when it was not there yet. It must be what the model asks for, by the hash of all that an
// engine depends on. A rank of a gang waits among the strays, listed as unmanaged, until every other rank has been found as well. Whatever else is
// found is nobody's, holds its cards, and is never killed for that.
func (tx *txn) adopt(node string, run wire.Running) bool {
	generation, spec, ok := tx.specOfRun(run)
	if !ok || run.Rank < 0 || run.Rank >= spec.Placement.Nodes {
		return false
	}
	ranks := []*stray{{Node: node, Run: run}}
	if spec.Placement.Nodes > 1 {
		tx.strays.put(strayKey(run), ranks[0])
		if ranks = tx.gangOf(run, spec.Placement.Nodes); ranks == nil {
			return false
		}
		tx.gather(node, ranks)
	}
	r := &fleet.Replica{
		ID: run.Replica, Model: run.Model, Generation: generation, RunHash: run.RunHash, State: fleet.Starting, Reason: "adopted after a restore",
		Door: ranks[0].Run.Door, Order: tx.at, CreatedAt: tx.meta.At, StateAt: tx.meta.At, Changed: tx.at,
	}
	for _, s := range ranks {
		r.Shards = append(r.Shards, fleet.Shard{Node: s.Node, Claims: s.Run.Claims, Shim: s.Run.Shim})
		r.Start = max(r.Start, s.Run.Start)
	}
	tx.putReplica(r)
	if ranks[0].Run.Ready && r.Door != nil {
		r = tx.edited(r) // its row is there first: the failed rows that go now may be all else that holds the spec of its generation
		tx.becomeReady(r)
		tx.putReplica(r)
	}
	if spec.Idle.UnloadAfter > 0 {
		tx.wantAgain(r) // it was woken after the state that was restored, and goes again when nobody asks for it
	}
	return true
}

// stray is a rank of a gang of which other ranks have not been found yet.
type stray struct {
	Node string       `json:"node"`
	Run  wire.Running `json:"run"`
}

// strayKey orders the ranks of a gang by number.
func strayKey(run wire.Running) string { return key(run.Replica, fmt.Sprintf("%06d", run.Rank)) }

// gangOf returns all ranks of the gang, in order, or nil while they are not all there.
func (tx *txn) gangOf(run wire.Running, size int) []*stray {
	ranks := tx.strays.rows(key(run.Replica, ""))
	if len(ranks) != size {
		return nil
	}
	for i, s := range ranks {
		same := func(o *stray) bool { return o.Node == s.Node }
		if s.Run.RunHash != run.RunHash || s.Run.Model != run.Model || slices.ContainsFunc(ranks[:i], same) {
			return nil
		}
	}
	return ranks
}

// gather takes the ranks of a gang that is complete from among the strays and, but for the node that registers just now, off the lists of what
// is unmanaged.
func (tx *txn) gather(registering string, ranks []*stray) {
	for _, s := range ranks {
		tx.strays.del(strayKey(s.Run))
		old, ok := tx.nodes.get(s.Node)
		if !ok || s.Node == registering {
			continue
		}
		n := *old
		n.Changed = tx.at
		what := unmanagedOf(s.Run).What
		n.Unmanaged = slices.DeleteFunc(slices.Clone(old.Unmanaged), func(u fleet.Unmanaged) bool { return u.What == what })
		tx.putNode(&n)
	}
}

// dropStrays forgets what a node was last found to run of gangs that are not complete.
func (tx *txn) dropStrays(node string) {
	for _, s := range tx.strays.rows("") {
		if s.Node == node {
			tx.strays.del(strayKey(s.Run))
		}
	}
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
