package consensus

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"

	"go.etcd.io/bbolt"

	"berth/internal/durable"
)

// storeFile keeps term and vote, and the log where it is kept as boltdb. It never shrinks by itself: pages of entries that are gone are used again, and given back to the file system
// only by a compaction.
const storeFile = "raft.db"

// compactStep is how many bytes go into one transaction of a compaction.
const compactStep = 1 << 20

// Compaction makes the log store's file as small as what is in it. It holds the data directory.
type Compaction struct {
	off *offline
	use StoreUse
}

// PrepareCompaction looks how large the log store is and how much of it is in use. It changes nothing. The caller closes what it gets.
func PrepareCompaction(ctx context.Context, dir string, log *slog.Logger) (*Compaction, error) {
	off, err := openOffline(ctx, dir, log)
	if err != nil {
		return nil, err
	}
	c := &Compaction{off: off}
	if c.use, err = off.files.storeUse(); err != nil {
		return nil, errors.Join(err, off.close())
	}
	return c, nil
}

// Diff says what changes.
func (c *Compaction) Diff() string {
	return fmt.Sprintf("peer %s of cluster %s, %s\n- %-7s %d bytes\n+ %-7s about %d bytes\n",
		c.off.me.ID, c.off.me.Cluster, c.off.dir, storeFile, c.use.File, storeFile, c.use.Used)
}

// Commit copies what is in use to a new file and puts it in the place of the old one, whole or not at all. It needs room for the copy.
func (c *Compaction) Commit() error {
	path := filepath.Join(c.off.dir, storeFile)
	if err := c.off.files.bolt.Close(); err != nil { // which gives up the lock on the file
		return err
	}
	c.off.files.bolt = nil
	part := path + ".compact"
	err := copyStore(part, path)
	if err == nil {
		err = durable.Rename(part, path)
	}
	if err != nil {
		return errors.Join(fmt.Errorf("compact %s: %w", path, err), durable.Remove(part))
	}
	return nil
}

// copyStore writes to a new file what a store holds, and has it on disk when it returns.
func copyStore(to, from string) (err error) {
	if err := durable.Remove(to); err != nil { // of a compaction that was cut short
		return err
	}
	src, err := bbolt.Open(from, durable.FileMode, &bbolt.Options{Timeout: lockWait, ReadOnly: true})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, src.Close()) }()
	dst, err := bbolt.Open(to, durable.FileMode, &bbolt.Options{Timeout: lockWait, NoFreelistSync: true, FreelistType: bbolt.FreelistMapType})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, dst.Close()) }()
	if err := bbolt.Compact(dst, src, compactStep); err != nil {
		return err
	}
	return dst.Sync()
}

// Close gives the data directory back.
func (c *Compaction) Close() error { return c.off.close() }

// StoreUse is how large the files of log, term and vote are, in bytes. File is raft.db and Used how much of it holds something; Log is what lies in a
// folder of its own, which shrinks by itself.
type StoreUse struct{ File, Used, Log int64 }

// storeUse looks at the files; nothing in memory.
func (f *files) storeUse() (u StoreUse, err error) {
	if f.bolt == nil {
		return u, nil
	}
	if f.wal != nil {
		u.Log = f.wal.Size()
	}
	info, err := os.Stat(filepath.Join(f.dir, storeFile))
	if err != nil {
		return u, err
	}
	st := f.bolt.Stats()
	free := int64(st.FreePageN+st.PendingPageN) * int64(os.Getpagesize())
	u.File, u.Used = info.Size(), max(0, info.Size()-free)
	return u, nil
}
