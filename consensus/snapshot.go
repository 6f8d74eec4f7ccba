package consensus

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/hashicorp/raft"

	"berth/fleet"
	"berth/fleet/wire"
	"berth/fsm"
)

const (
	// snapshotWait bounds the taking of a snapshot, restoreWait the restoring of one on all peers.
	snapshotWait = 10 * time.Minute
	restoreWait  = 10 * time.Minute
	// maxSnapshot is the largest file that is read for a restore.
	maxSnapshot = 16 << 30
)

// SnapshotNow takes a snapshot of this peer's state into its data directory, and shortens its log. It is no error when
// nothing has happened since the last.
func (n *Node) SnapshotNow(ctx context.Context) error {
	_, err := awaitFor(ctx, n, snapshotWait, func(time.Duration) raft.Future { return n.raft.Snapshot() })
	if errors.Is(err, raft.ErrNothingNewToSnapshot) {
		return nil
	}
	return n.explainRead(err)
}

// RestoreSnapshot makes a snapshot file the state of the whole cluster, in a new epoch. Only the leader can. A file that
// cannot be used is refused before anything changes: raft would panic on it. One of another cluster needs force, and
// keeps the id of this one. The info is that of the file.
//
// Writes in flight end with fleet.OutcomeUnknown, peers that lag are sent the snapshot, and the duties of Lead begin
// anew. An error after the file was accepted is OutcomeUnknown too.
func (n *Node) RestoreSnapshot(ctx context.Context, r io.Reader, force bool) (wire.SnapshotInfo, error) {
	if !n.IsLeader() {
		return wire.SnapshotInfo{}, n.noLeader()
	}
	state, info, err := fsm.Load(io.LimitReader(r, maxSnapshot))
	if err != nil {
		return info, err
	}
	cluster := n.Cluster()
	if info.Cluster != cluster && !force {
		return info, fleet.Errorf(fleet.WrongCluster, "the snapshot is of cluster %s, this is %s", info.Cluster, cluster).
			WithHint("restore it with --force if that is meant; the cluster keeps its own id")
	}
	// Ahead of the file, of what runs, and of whatever ran before the file was lost: seconds grow faster than epochs.
	epoch := max(info.Index.Epoch, n.cfg.Machine.State().Cluster().Epoch, uint64(time.Now().Unix())) + 1
	image, err := state.WithIdentity(cluster, epoch, fleet.TimeOf(time.Now()))
	if err != nil {
		return info, err
	}
	file, size, err := spool(n.cfg.DataDir, image)
	if err != nil {
		return info, fmt.Errorf("prepare the restore: %w", err)
	}
	n.cfg.Log.Warn("restoring a snapshot", "cluster", info.Cluster, "index", info.Index, "epoch", epoch, "bytes", size)
	_, err = awaitFor(ctx, n, restoreWait, func(wait time.Duration) raft.Future {
		defer file.Close()
		return finished{n.raft.Restore(&raft.SnapshotMeta{Version: raft.SnapshotVersionMax, Size: size}, file, wait)}
	})
	if err != nil {
		return info, n.explain(err)
	}
	n.leadership.renew()
	return info, n.barrier(ctx)
}

// spool writes the state that raft is to get to a file without a name, and reads it back as raft will.
func spool(dir string, s *fsm.State) (_ *os.File, size int64, err error) {
	f, err := os.CreateTemp(dir, "restore-*")
	if err != nil {
		return nil, 0, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, f.Close())
		}
	}()
	if err := os.Remove(f.Name()); err != nil { // the kernel keeps it until it is closed, and nobody else finds it
		return nil, 0, err
	}
	if err := s.WriteSnapshot(f); err != nil {
		return nil, 0, err
	}
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return nil, 0, err
	}
	info, err := fsm.Inspect(f)
	if err != nil {
		return nil, 0, fmt.Errorf("dry run: %w", err)
	}
	_, err = f.Seek(0, io.SeekStart)
	return f, info.Bytes, err
}

// finished is a future for what raft does without one.
type finished struct{ err error }

func (f finished) Error() error { return f.err }
