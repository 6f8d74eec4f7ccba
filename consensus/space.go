package consensus

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"sync"

	"berth/internal/durable"
)

// DiskUse is how this peer stands with its disk, in bytes.
type DiskUse struct {
	Store    StoreUse
	Snapshot int64 // the newest one; 0: none yet
	// Free and Total are of the file system of the data directory; both 0 where that cannot be found out, and in memory.
	Free, Total uint64
	// BallastGone says that the disk was full, and that what was kept for that was given up and could not be laid anew yet.
	BallastGone bool
}

// DiskUse looks at the disk. It may wait as long as the disk does.
func (n *Node) DiskUse() (DiskUse, error) {
	var u DiskUse
	if n.cfg.DataDir == "" {
		return u, nil
	}
	var err error
	if u.Store, err = n.files.storeUse(); err != nil {
		return u, err
	}
	all, err := n.files.snapshots.List()
	if err != nil {
		return u, err
	}
	if len(all) > 0 {
		u.Snapshot = all[0].Size
	}
	u.Free, u.Total, _, err = durable.Space(n.cfg.DataDir)
	n.ballast.lay(u.Free)
	u.BallastGone = n.ballast.gone()
	return u, err
}

// When a person should look at a disk.
const (
	// storeGrowth is how many times what it holds a store's file may measure; below storeFloor nobody minds.
	storeGrowth = 4
	storeFloor  = 256 << 20
	// snapshotRoom is for how many snapshots there must be room: the next one while the last is there, and one that the leader sends.
	snapshotRoom = 2
	leastRoom    = 64 << 20
	// lowShare of the file system is little, up to lowMost bytes.
	lowShare = 20
	lowMost  = 5 << 30
)

// Warnings says, a line each, what a person should do about this disk before it is too late.
func (u DiskUse) Warnings(dir string) []string {
	var out []string
	if u.BallastGone {
		out = append(out, fmt.Sprintf("its disk was full, and the ballast in %s was given up to go on; make room", dir))
	}
	need := max(uint64(snapshotRoom*u.Snapshot)+leastRoom, min(u.Total/lowShare, lowMost))
	if u.Total > 0 && u.Free < need {
		out = append(out, fmt.Sprintf("%s has %s free, and at least %s are needed: without room it can neither write nor lead", dir, bytesText(u.Free), bytesText(need)))
	}
	if u.Store.File > storeFloor && u.Store.File > storeGrowth*u.Store.Used {
		out = append(out, fmt.Sprintf("its log store has grown to %s and holds %s: stop it and run berth peer recover --compact",
			bytesText(uint64(u.Store.File)), bytesText(uint64(u.Store.Used))))
	}
	return out
}

func bytesText(n uint64) string {
	if n >= 10<<30 {
		return fmt.Sprintf("%d GiB", n>>30)
	}
	return fmt.Sprintf("%d MiB", n>>20)
}

const (
	ballastFile = "ballast"
	// ballastRoom is how many times its size must be free before it is laid: on a small disk it would be the trouble it is meant for.
	ballastRoom = 16
)

// ballast is a file that is there to be deleted. When the disk is full it makes room in which term and vote can still be saved, so that the peer
// steps down and follows, instead of ending and not starting again.
type ballast struct {
	path string
	size int64 // 0: none is kept
	log  *slog.Logger

	mu    sync.Mutex
	there bool
	spent bool
}

// newBallast finds the file of an earlier start, or makes it if there is room. A peer without it is worse off only on a full disk, so its failure
// is no reason not to start.
func newBallast(c Config) *ballast {
	b := &ballast{path: filepath.Join(c.DataDir, ballastFile), size: c.Ballast, log: c.Log}
	if c.DataDir == "" {
		b.size = 0
	}
	if b.size == 0 {
		return b
	}
	info, err := os.Stat(b.path)
	switch {
	case err == nil && info.Size() == b.size:
		b.there = true
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		c.Log.Warn("cannot look for the ballast", "path", b.path, "error", err)
	default:
		if free, _, ok, err := durable.Space(c.DataDir); err == nil && ok {
			b.lay(free)
		}
	}
	return b
}

// lay makes the file if there is none and so much is free that it harms nobody.
func (b *ballast) lay(free uint64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.there || b.size == 0 || free < uint64(ballastRoom*b.size) {
		return
	}
	if err := writeZeros(b.path, b.size); err != nil {
		b.log.Warn("cannot lay the ballast", "path", b.path, "error", errors.Join(err, durable.Remove(b.path)))
		return
	}
	b.there, b.spent = true, false
}

// writeZeros fills a new file: one with holes would hold no room.
func writeZeros(path string, size int64) error {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, durable.FileMode)
	if err != nil {
		return err
	}
	_, err = io.CopyN(f, zeros{}, size)
	return errors.Join(err, f.Sync(), f.Close())
}

type zeros struct{}

// Read implements io.Reader.
func (zeros) Read(p []byte) (int, error) { clear(p); return len(p), nil }

// drop gives the room back to the file system, once.
func (b *ballast) drop() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.there {
		return
	}
	b.there, b.spent = false, true
	b.log.Error("the disk is full; giving up the ballast", "path", b.path, "bytes", b.size, "error", os.Remove(b.path))
}

func (b *ballast) gone() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.spent
}
