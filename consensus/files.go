package consensus

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/hashicorp/raft"
	raftboltdb "github.com/hashicorp/raft-boltdb/v2"
	"go.etcd.io/bbolt"

	"berth/consensus/wal"
	"berth/fsm"
	"berth/internal/durable"
)

// files is the data directory, or its stand-in in memory.
type files struct {
	dir       string
	lock      *durable.DirLock
	store     backing
	bolt      *raftboltdb.BoltStore // nil in memory
	wal       *wal.Log              // nil in memory and where the log is in bolt
	snapshots raft.SnapshotStore
}

// openFiles locks the directory, opens log and snapshots and checks that the newest snapshot can be used. An empty kind of log takes what there is.
func openFiles(ctx context.Context, dir, kind string, log *slog.Logger) (*files, error) {
	if dir == "" {
		return &files{store: raft.NewInmemStore(), snapshots: raft.NewInmemSnapshotStore()}, nil
	}
	f := &files{dir: dir}
	if err := f.open(ctx, kind, log); err != nil {
		return nil, errors.Join(err, f.close())
	}
	return f, nil
}

func (f *files) open(ctx context.Context, kind string, log *slog.Logger) (err error) {
	// 0700 on both keeps snapshots, which hold secrets and which raft writes by the umask, from everyone else.
	for _, dir := range []string{f.dir, filepath.Join(f.dir, "snapshots")} {
		if err := durable.MakeDir(dir); err != nil {
			return err
		}
		if err := os.Chmod(dir, durable.DirMode); err != nil {
			return err
		}
	}
	if f.lock, err = lockDir(ctx, f.dir); err != nil {
		return err
	}
	if err := sweep(f.dir, log); err != nil {
		return err
	}
	if err = f.openLog(kind); err != nil {
		return err
	}
	snapshots, err := raft.NewFileSnapshotStoreWithLogger(f.dir, snapshotsKept, newRaftLogger(log))
	if err != nil {
		return fmt.Errorf("open snapshots of %s: %w", f.dir, err)
	}
	f.snapshots = snapshots
	return preflight(f.dir, snapshots)
}

// close gives everything back; what was never opened is skipped.
func (f *files) close() error {
	if f == nil {
		return nil
	}
	var errs []error
	if f.wal != nil {
		errs = append(errs, f.wal.Close())
	}
	if f.bolt != nil {
		errs = append(errs, f.bolt.Close())
	}
	if f.lock != nil {
		errs = append(errs, f.lock.Unlock())
	}
	return errors.Join(errs...)
}

// lockDir waits a little, so that a restart does not fail for a process that is just ending.
func lockDir(ctx context.Context, dir string) (*durable.DirLock, error) {
	until := time.Now().Add(lockWait)
	for {
		l, err := durable.LockDir(dir)
		if err == nil || !errors.Is(err, durable.ErrLocked) || time.Now().After(until) || ctx.Err() != nil {
			return l, err
		}
		pause(ctx, 100*time.Millisecond)
	}
}

// sweep removes what a snapshot that failed or was cut short left behind; raft never does.
func sweep(dir string, log *slog.Logger) error {
	left, err := filepath.Glob(filepath.Join(dir, "snapshots", "*.tmp"))
	if err != nil {
		return err
	}
	for _, path := range left {
		log.Info("removing an unfinished snapshot", "path", path)
		if err := os.RemoveAll(path); err != nil {
			return fmt.Errorf("remove an unfinished snapshot: %w", err)
		}
	}
	return nil
}

func openBolt(path string) (*raftboltdb.BoltStore, error) {
	s, err := raftboltdb.New(raftboltdb.Options{
		Path: path,
		BoltOptions: &bbolt.Options{
			Timeout: lockWait, // without it a second process waits for ever
			// A synced freelist costs 200 kB a commit once the file has been large. It is rebuilt at the next start.
			NoFreelistSync: true,
			FreelistType:   bbolt.FreelistMapType,
		},
	})
	switch {
	case err == nil:
		return s, os.Chmod(path, durable.FileMode)
	case errors.Is(err, fs.ErrPermission):
		return nil, fmt.Errorf("open the log: %w", err)
	}
	return nil, fmt.Errorf("open the log %s: %w; if the file is damaged, move the data directory away and join anew", path, err)
}

// preflight reads the newest snapshot whole. raft would fall back to an older one and then panic for want of the
// entries between the two.
func preflight(dir string, snapshots raft.SnapshotStore) error {
	all, err := snapshots.List()
	if err != nil {
		return fmt.Errorf("list snapshots of %s: %w", dir, err)
	}
	if err := noUnlisted(dir, len(all)); err != nil || len(all) == 0 {
		return err
	}
	_, r, err := snapshots.Open(all[0].ID)
	if err == nil {
		_, err = fsm.Inspect(r)
		err = errors.Join(err, r.Close())
	}
	if err != nil {
		return fmt.Errorf("the newest snapshot, %s, cannot be used: %w; if a newer release wrote it, start that; if it is damaged, move %s away and join anew",
			filepath.Join(dir, "snapshots", all[0].ID), err, dir)
	}
	return nil
}

// noUnlisted finds the folders that raft's listing leaves out because their description cannot be read: the newest
// snapshot may be one of them.
func noUnlisted(dir string, listed int) error {
	entries, err := os.ReadDir(filepath.Join(dir, "snapshots"))
	if err != nil {
		return err
	}
	found := 0
	for _, e := range entries {
		if e.IsDir() && !strings.HasSuffix(e.Name(), ".tmp") {
			found++
		}
	}
	if listed < min(found, snapshotsKept) {
		return fmt.Errorf("%d of the %d snapshots of %s cannot be read: their meta.json is damaged; move the directory away and join anew",
			found-listed, found, dir)
	}
	return nil
}
