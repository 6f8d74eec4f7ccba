package consensus

import (
	"errors"
	"fmt"
	"io"
	"sync/atomic"

	"github.com/hashicorp/raft"
)

// ErrContradicted is wrapped by Run's error when this peer's log contradicted a snapshot from its leader. A restart goes on from the snapshot.
var ErrContradicted = errors.New("the log contradicted the leader's snapshot")

// snapshots is the store of snapshots; it remembers which one was opened last.
type snapshots struct {
	raft.SnapshotStore
	opened atomic.Pointer[raft.SnapshotMeta]
}

// Open implements raft.SnapshotStore.
func (s *snapshots) Open(id string) (*raft.SnapshotMeta, io.ReadCloser, error) {
	meta, r, err := s.SnapshotStore.Open(id)
	if err == nil {
		s.opened.Store(meta)
	}
	return meta, r, err
}

// taken is told when the machine has taken a snapshot up. A follower that was sent one by its leader while its own log has another entry at that
// index is sent it again for ever (raft issue 697): raft keeps the old entries, and refuses what follows the snapshot because of them. All
// of them are wrong, though: the snapshot holds only what was committed, so the entry at its index was not, nor anything after it, and what came
// before is in the snapshot. So the log goes, and the peer ends, since raft keeps the end of the log in mind; after its restart it has the
// snapshot alone, like any peer that was sent one. Term and vote stay.
func (n *Node) taken() error {
	meta := n.opened.opened.Load()
	if n.raft == nil || n.raft.State() == raft.Leader || meta == nil { // at the start, see startRaft; a leader restores what it was given
		return nil
	}
	dropped, err := dropContradicted(n.store.backing, meta.Index, meta.Term)
	if err != nil {
		err = fmt.Errorf("drop a log that contradicts the snapshot at %d: %w", meta.Index, err)
	} else if dropped {
		err = fmt.Errorf("%w at %d; it was dropped, and this peer goes on from the snapshot after a restart", ErrContradicted, meta.Index)
	}
	if err != nil {
		n.fatal(err)
	}
	return err
}

// dropContradicted empties a log whose entry at the index of a snapshot is of another term than the snapshot's.
func dropContradicted(s backing, index, term uint64) (bool, error) {
	var l raft.Log
	switch err := s.GetLog(index, &l); {
	case errors.Is(err, raft.ErrLogNotFound):
		return false, nil
	case err != nil:
		return false, err
	case l.Term == term:
		return false, nil
	}
	first, err := s.FirstIndex()
	if err != nil {
		return false, err
	}
	last, err := s.LastIndex()
	if err != nil {
		return false, err
	}
	return true, s.DeleteRange(first, last)
}

// contradictedAtStart does what taken does for a peer that ended between the two.
func (n *Node) contradictedAtStart() error {
	all, err := n.files.snapshots.List()
	if err != nil || len(all) == 0 {
		return err
	}
	dropped, err := dropContradicted(n.store.backing, all[0].Index, all[0].Term)
	if dropped && err == nil {
		n.cfg.Log.Warn("the log contradicted the newest snapshot and was dropped", "peer", n.cfg.ID, "index", all[0].Index)
	}
	return err
}
