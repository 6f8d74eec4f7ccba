package consensus

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/raft"

	"berth/fleet"
	"berth/fsm"
	"berth/internal/durable"
)

// disk is a switch for one peer's writes.
type disk struct {
	mu   sync.Mutex
	cond *sync.Cond
	hung bool
	fail error
}

func newDisk() *disk {
	d := new(disk)
	d.cond = sync.NewCond(&d.mu)
	return d
}

func (d *disk) write() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	for d.hung {
		d.cond.Wait()
	}
	return d.fail
}

func (d *disk) set(hung bool, fail error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.hung, d.fail = hung, fail
	d.cond.Broadcast()
}

// disks gives each peer of the rig a disk that can be made to misbehave.
func (r *rig) disks() map[string]*disk {
	all := map[string]*disk{}
	r.tune = func(c *Config) {
		d := newDisk()
		all[c.ID] = d
		c.BeforeWrite = d.write
	}
	return all
}

func TestStuckDiskEndsTheLeader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		disks := r.disks()
		old := r.three()
		r.write(old, "a")
		disks[old.ID()].set(true, nil)
		start := time.Now()
		var wg sync.WaitGroup
		wg.Go(func() {
			if err := put(old, "stuck"); !errors.Is(err, fleet.OutcomeUnknown) {
				t.Errorf("write onto a stuck disk: %v", err)
			}
		})
		delete(r.all, old.ID())
		time.Sleep(6 * time.Second)
		next := r.leader()
		r.write(next, "b")
		if took := time.Since(start); took > 9*time.Second {
			t.Errorf("the next write was committed after %v", took)
		}
		wg.Wait()
		if !strings.Contains(old.log.text(), "the disk is slow") || len(old.fatals) != 1 || !strings.Contains(old.fatals[0].Error(), "stuck") {
			t.Errorf("fatal %v; log:\n%s", old.fatals, old.log.text())
		}
		time.AfterFunc(time.Minute, func() { disks[old.ID()].set(false, nil) })
		if err := old.stop(); err == nil || !strings.Contains(err.Error(), "stuck") {
			t.Errorf("Run: %v", err)
		}
		time.Sleep(2 * time.Minute) // the goroutine in the stuck write ends
		r.same(next)
	})
}

// A leader that cannot append steps down. It then cannot note the next term either, so it ends, as it would by raft's
// own panic, and is whole again after a restart with room on its disk.
func TestFullDiskStepsDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.dir = t.TempDir()
		disks := r.disks()
		old := r.three()
		disks[old.ID()].set(false, syscall.ENOSPC)
		if err := put(old, "a"); err == nil {
			t.Error("a write onto a full disk succeeded")
		}
		delete(r.all, old.ID())
		next := r.leader()
		r.write(next, "b")
		if old.AppliedIndex() >= next.CommitIndex() {
			t.Errorf("the full peer claims index %d of %d", old.AppliedIndex(), next.CommitIndex())
		}
		<-old.ctx.Done()
		if err := old.stop(); !errors.Is(err, syscall.ENOSPC) {
			t.Errorf("Run: %v", err)
		}
		r.start(old.ID(), 3)
		r.same(r.leader())
	})
}

func TestFailedVoteEndsThePeer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var fatal error
		s := &guardedStore{backing: raft.NewInmemStore(), log: slog.New(slog.DiscardHandler),
			before: func() error { return syscall.EIO }, fatal: func(err error) { fatal = err }}
		if err := s.SetUint64([]byte("CurrentTerm"), 7); err != nil || !errors.Is(fatal, syscall.EIO) {
			t.Errorf("raft would panic on %v; fatal %v", err, fatal)
		}
	})
}

// entry is a log entry with a command.
func entry(t *testing.T, index uint64) *raft.Log {
	data, err := fsm.Encode(fsm.Meta{}, fsm.ClusterCreate{ID: "c-1"})
	if err != nil {
		t.Fatal(err)
	}
	return &raft.Log{Index: index, Term: 1, Type: raft.LogCommand, Data: data}
}

func TestRottenEntryIsFoundWhenItIsRead(t *testing.T) {
	inner := raft.NewInmemStore()
	var fatal error
	s := &guardedStore{backing: inner, log: slog.New(slog.DiscardHandler), fatal: func(err error) { fatal = err }}
	good := entry(t, 1)
	if err := s.StoreLog(good); err != nil {
		t.Fatal(err)
	}
	var out raft.Log
	if err := s.GetLog(1, &out); err != nil || fatal != nil {
		t.Fatal(err, fatal)
	}
	for bit := range 8 * len(good.Data) {
		bad := *good
		bad.Data = bytes.Clone(good.Data)
		bad.Data[bit/8] ^= 1 << (bit % 8)
		if err := s.StoreLog(&bad); err == nil {
			t.Fatalf("bit %d: a damaged entry was stored", bit)
		}
		fatal = nil
		_ = inner.StoreLog(&bad)
		_ = s.GetLog(1, &out)
		if fatal == nil {
			t.Fatalf("bit %d: a damaged entry was read without a word", bit)
		}
	}
}

func TestEntryThatCannotBeAppliedStopsThePeer(t *testing.T) {
	var fatal error
	a := &adapter{machine: fsm.New(), fatal: func(err error) { fatal = err }}
	if _, ok := a.Apply(entry(t, 1)).(fsm.Outcome); !ok {
		t.Fatal("a good entry was not applied")
	}
	before := a.machine.State().Fingerprint()
	bad := entry(t, 2)
	bad.Data[len(bad.Data)-1] ^= 1
	if _, ok := a.Apply(bad).(error); !ok || fatal == nil {
		t.Fatalf("fatal %v", fatal)
	}
	a.Apply(entry(t, 3))
	if _, err := a.Snapshot(); err == nil || a.seen.Load() != 1 || a.machine.State().Fingerprint() != before {
		t.Errorf("a stopped machine goes on: snapshot %v, index %d", err, a.seen.Load())
	}
}

// sink fails after some bytes, or at its close.
type sink struct {
	left      int
	closeErr  error
	cancelled bool
}

var errSink = errors.New("no space")

func (s *sink) Write(p []byte) (int, error) {
	if s.left -= len(p); s.left < 0 {
		return 0, errSink
	}
	return len(p), nil
}
func (s *sink) Close() error  { return s.closeErr }
func (s *sink) ID() string    { return "sink" }
func (s *sink) Cancel() error { s.cancelled = true; return nil }

func TestPersistReportsItsFirstError(t *testing.T) {
	img := image{fsm.New().State()}
	full := &sink{left: 10}
	if err := img.Persist(full); !errors.Is(err, errSink) || !full.cancelled {
		t.Errorf("full: %v, cancelled %v", err, full.cancelled)
	}
	if err := img.Persist(&sink{left: 1 << 20, closeErr: errSink}); !errors.Is(err, errSink) {
		t.Errorf("close: %v", err)
	}
	if err := img.Persist(&sink{left: 1 << 20}); err != nil {
		t.Error(err)
	}
}

// aged gives a data directory with a snapshot in it, of a peer that has ended.
func aged(t *testing.T, r *rig) (dir, snapshot string) {
	p := r.startAlone("peer-1")
	for i := range 10 {
		r.write(p, fmt.Sprintf("a-%d", i))
	}
	if err := p.SnapshotNow(t.Context()); err != nil {
		t.Fatal(err)
	}
	r.kill("peer-1")
	dir = filepath.Join(r.dir, "peer-1")
	found, _ := filepath.Glob(filepath.Join(dir, "snapshots", "*"))
	if len(found) != 1 {
		t.Fatalf("snapshots %v", found)
	}
	return dir, found[0]
}

func TestPreflightRefusesADamagedSnapshot(t *testing.T) {
	for name, damage := range map[string]func(path string) error{
		"flipped":     func(p string) error { return flip(filepath.Join(p, "state.bin")) },
		"cut":         func(p string) error { return os.Truncate(filepath.Join(p, "state.bin"), 20) },
		"description": func(p string) error { return os.WriteFile(filepath.Join(p, "meta.json"), []byte("{"), 0o600) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t)
				r.dir = t.TempDir()
				dir, snapshot := aged(t, r)
				if err := damage(snapshot); err != nil {
					t.Fatal(err)
				}
				c := r.config("peer-1")
				c.Log = slog.New(slog.DiscardHandler)
				if _, err := Open(c); err == nil || !strings.Contains(err.Error(), dir) || !strings.Contains(err.Error(), "join anew") {
					t.Errorf("open: %v", err)
				}
			})
		})
	}
}

func flip(path string) error {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	b := make([]byte, 1)
	if _, err := f.ReadAt(b, 50); err != nil {
		return err
	}
	b[0] ^= 4
	_, err = f.WriteAt(b, 50)
	return err
}

func TestOpenSweepsAndShutsTheDirectory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.dir = t.TempDir()
		dir, _ := aged(t, r)
		left := filepath.Join(dir, "snapshots", "2-9-1.tmp")
		if err := errors.Join(os.Mkdir(left, 0o755), os.Chmod(dir, 0o755)); err != nil {
			t.Fatal(err)
		}
		p := r.start("peer-1", -1)
		if _, err := os.Stat(left); !os.IsNotExist(err) {
			t.Errorf("an unfinished snapshot stays: %v", err)
		}
		for path, want := range map[string]os.FileMode{dir: 0o700, filepath.Join(dir, "snapshots"): 0o700, filepath.Join(dir, "raft.db"): 0o600, filepath.Join(dir, "log"): 0o700, filepath.Join(dir, "peer.json"): 0o600} {
			if st, err := os.Stat(path); err != nil || st.Mode().Perm() != want {
				t.Errorf("%s: %v, %v; want mode %v", path, st.Mode(), err, want)
			}
		}
		r.until("leads again", p.IsLeader)
		if _, ok := p.machine.State().Server("a-9"); !ok {
			t.Error("the snapshot was not taken up")
		}
	})
}

func TestLogWithoutIdentityIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.dir = t.TempDir()
		dir, _ := aged(t, r)
		if err := durable.Remove(filepath.Join(dir, identityFile)); err != nil {
			t.Fatal(err)
		}
		c := r.config("peer-1")
		c.Log = slog.New(slog.DiscardHandler)
		if _, err := Open(c); err == nil || !strings.Contains(err.Error(), "names no cluster") {
			t.Errorf("open: %v", err)
		}
	})
}

var _ io.Writer = (*sink)(nil)

// raft leaves its idea of the log's end as it was when it has cut off entries and cannot write the ones that replace them. It then refuses what the
// leader sends for ever, so the peer ends, and reads after its restart what there is.
func TestAFailureAfterACutEndsThePeer(t *testing.T) {
	entry := func(index, term uint64) *raft.Log { return &raft.Log{Index: index, Term: term, Type: raft.LogNoop} }
	var full error
	var ended []error
	s := &guardedStore{backing: raft.NewInmemStore(), log: quiet(), before: func() error { return full }, fatal: func(err error) { ended = append(ended, err) }}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(s.StoreLogs([]*raft.Log{entry(1, 1), entry(2, 1), entry(3, 1), entry(4, 1)}))
	must(s.DeleteRange(1, 1)) // as after a snapshot
	full = syscall.ENOSPC
	if err := s.StoreLogs([]*raft.Log{entry(5, 1)}); !errors.Is(err, syscall.ENOSPC) || len(ended) > 0 {
		t.Fatalf("a failure at the end of a whole log: %v, ended for %v", err, ended)
	}
	full = nil
	must(s.DeleteRange(3, 4))
	full = syscall.ENOSPC
	if err := s.StoreLogs([]*raft.Log{entry(3, 2)}); !errors.Is(err, syscall.ENOSPC) || len(ended) != 1 || !errors.Is(ended[0], syscall.ENOSPC) {
		t.Fatalf("a failure after a cut: %v, ended for %v", err, ended)
	}
	full = nil
	must(s.StoreLogs([]*raft.Log{entry(3, 2)}))
	full = syscall.ENOSPC
	if err := s.StoreLogs([]*raft.Log{entry(4, 2)}); err == nil || len(ended) != 1 {
		t.Fatalf("after the cut was mended: %v, ended for %v", err, ended)
	}
}
