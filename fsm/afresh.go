package fsm

import (
	"slices"

	"berth/fleet"
)

// markUnconfirmed is the mark of a replica of which the cluster does not know whether it runs: it was restored, and a node of its has not
// registered since.
const markUnconfirmed = "unconfirmed"

// reasonUnconfirmed is why such a replica is not ready.
const reasonUnconfirmed = "restored; its node has not reported yet"

// WithIdentity returns the state as a restore is to have it: in a new, higher epoch, so that every order of the time before is older than it, and
// with the id of the cluster that goes on. It is meant to be written to a file; no machine takes it over. At is the time of the restore.
//
// The state is of the past, and what runs on the nodes is of today. So it believes nothing of it until each node has said what it runs:
//
//   - No node has a registered instance. Its agent is asked to register, gets nothing placed and is believed no report until it has; a node that
//     does not come becomes unreachable for silence, like any other.
//   - A ready replica is starting again, and unconfirmed. Routers may use it when there is no other. A door that its node reports makes it ready;
//     nothing is started, stopped or placed elsewhere before.
//   - Every order is given anew, with the index of the restore. Agents have seen later ones of the epoch before, and ignore what is older.
func (s *State) WithIdentity(cluster string, epoch uint64, at fleet.Time) (*State, error) {
	if epoch <= s.core.Cluster.Epoch {
		return nil, fleet.Errorf(fleet.StaleEpoch, "the snapshot is of epoch %d; it cannot be restored into epoch %d", s.core.Cluster.Epoch, epoch)
	}
	tx := s.begin(fleet.Index{Epoch: epoch, N: s.index.N}, Meta{At: at})
	tx.core.Cluster.ID, tx.core.Cluster.Epoch = cluster, epoch
	for _, old := range tx.nodes.rows("") {
		n := *old
		n.Instance, n.Changed = 0, tx.at // see fleet.Node.Awaited
		tx.putNode(&n)
		tx.touch(ordersFeed(n.Name))
	}
	for _, old := range tx.replicas.rows("") {
		tx.doubt(old)
	}
	tx.touch(feedTable)
	t := tx.commit()
	t.signals, t.hub = newSignals(), newHub(t)
	return t, nil
}

// doubt makes a restored replica one of which nothing is known.
func (tx *txn) doubt(old *fleet.Replica) {
	r := tx.edited(old)
	r.Order = tx.at
	if r.State == fleet.Ready {
		tx.enter(r, fleet.Starting)
	}
	if r.Marks = tx.marks(r); r.State.Live() && unconfirmed(r) {
		r.Reason = reasonUnconfirmed
	}
	tx.putReplica(r)
}

func unconfirmed(r *fleet.Replica) bool { return slices.Contains(r.Marks, markUnconfirmed) }

// unheard says whether a node that holds a part of the replica is awaited.
func (tx *txn) unheard(r *fleet.Replica) bool {
	return slices.ContainsFunc(r.Shards, func(s fleet.Shard) bool {
		n, ok := tx.nodes.get(s.Node)
		return ok && !s.Released && n.Awaited()
	})
}
