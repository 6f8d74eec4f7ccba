package consensus

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"

	"github.com/hashicorp/raft"

	"berth/fsm"
)

// A log that was long and is short again leaves a large file; a compaction makes it small and loses nothing.
func TestCompaction(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.dir = t.TempDir()
		p := r.startAlone("peer-1")
		r.write(p, "before")
		dir := filepath.Join(r.dir, "peer-1")
		r.kill("peer-1")
		grow(t, dir)
		c, err := PrepareCompaction(t.Context(), dir, quiet())
		if err != nil {
			t.Fatal(err)
		}
		if c.use.Log == 0 || c.use.Used > c.use.File/2 || !strings.Contains(c.Diff(), fmt.Sprintf("- raft.db %d bytes\n", c.use.File)) {
			t.Errorf("%+v\n%s", c.use, c.Diff())
		}
		if err := errors.Join(c.Commit(), c.Close()); err != nil {
			t.Fatal(err)
		}
		info, err := os.Stat(filepath.Join(dir, storeFile))
		if err != nil || info.Size() > c.use.File/2 || info.Mode().Perm() != 0o600 {
			t.Errorf("%d bytes before, %v after, %v", c.use.File, info, err)
		}
		p = r.start("peer-1", -1)
		r.until("it leads", func() bool { return p.IsLeader() && p.CaughtUp() })
		if _, ok := p.machine.State().Server("before"); !ok {
			t.Error("what was written is not there")
		}
		r.write(p, "after")
	})
}

// grow appends to the log of a peer that does not run, and takes it back.
func grow(t *testing.T, dir string) {
	t.Helper()
	off, err := openOffline(t.Context(), dir, quiet())
	if err != nil {
		t.Fatal(err)
	}
	last, err := off.files.bolt.LastIndex()
	if err != nil {
		t.Fatal(err)
	}
	var logs []*raft.Log
	for i := range uint64(2000) {
		logs = append(logs, &raft.Log{Index: last + 1 + i, Term: 1, Type: raft.LogNoop, Data: make([]byte, 4096)})
	}
	err = errors.Join(off.files.bolt.StoreLogs(logs), off.files.bolt.DeleteRange(last+1, last+2000), off.close())
	if err != nil {
		t.Fatal(err)
	}
}

func TestWarningsOfADisk(t *testing.T) {
	const gib = 1 << 30
	for _, c := range []struct {
		use  DiskUse
		want []string
	}{
		{DiskUse{}, nil}, // in memory
		{DiskUse{Store: StoreUse{File: gib, Used: gib}, Snapshot: gib, Free: 100 * gib, Total: 500 * gib}, nil},
		{DiskUse{Store: StoreUse{File: gib, Used: gib / 8}, Free: 100 * gib, Total: 500 * gib}, []string{"has grown to 1024 MiB and holds 128 MiB"}},
		{DiskUse{Store: StoreUse{File: 100 << 20, Used: 1 << 20}, Free: 100 * gib, Total: 500 * gib}, nil}, // small enough to not matter
		{DiskUse{Snapshot: 4 * gib, Free: 8 * gib, Total: 20 * gib}, []string{"8192 MiB free, and at least 8256 MiB"}},
		{DiskUse{Free: 4 * gib, Total: 500 * gib}, []string{"4096 MiB free, and at least 5120 MiB"}},
		{DiskUse{Free: 40 << 20, Total: gib, BallastGone: true}, []string{"ballast", "40 MiB free"}},
	} {
		got := c.use.Warnings("/var/lib/berth/peer")
		if len(got) != len(c.want) || !slices.EqualFunc(got, c.want, strings.Contains) {
			t.Errorf("%+v: %q, want %q", c.use, got, c.want)
		}
	}
}

// The ballast is given up for the first write that finds the disk full, and the peer can then save its term and go on as a follower.
func TestBallastIsGivenUpOnAFullDisk(t *testing.T) {
	dir := t.TempDir()
	b := newBallast(Config{DataDir: dir, Ballast: 1 << 20, Log: quiet()})
	path := filepath.Join(dir, ballastFile)
	if info, err := os.Stat(path); err != nil || info.Size() != 1<<20 {
		t.Fatalf("%v, %v", info, err)
	}
	var failed []error
	s := &guardedStore{backing: raft.NewInmemStore(), log: quiet(), fatal: func(err error) { failed = append(failed, err) }, full: b.drop,
		before: func() error {
			if _, err := os.Stat(path); err == nil {
				return syscall.ENOSPC // until the ballast is gone
			}
			return nil
		}}
	data, err := fsm.Encode(fsm.Meta{}, fsm.ClusterCreate{ID: "c-1"})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.StoreLog(&raft.Log{Index: 1, Term: 1, Data: data}); !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("the write that found the disk full: %v", err)
	}
	if err := s.SetUint64(termKey, 2); err != nil || len(failed) > 0 {
		t.Errorf("the term cannot be saved: %v, %v", err, failed)
	}
	if !b.gone() {
		t.Error("nobody is told")
	}
	b.lay(15 << 20)
	if !b.gone() {
		t.Error("laid again with little room")
	}
	b.lay(16 << 20)
	if b.gone() {
		t.Error("not laid again with room enough")
	}
}
