package consensus

import (
	"bytes"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/raft"

	"berth/consensus/wal"
	"berth/fsm"
)

// A directory goes on as it was begun, whatever the default is by then, and one that is to be of the other kind is refused before anything is written.
func TestADataDirectoryKeepsItsKindOfLog(t *testing.T) {
	for kind, other := range map[string]string{LogWAL: LogBolt, LogBolt: LogWAL} {
		t.Run(kind, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t)
				r.dir = t.TempDir()
				use := kind
				r.tune = func(c *Config) { c.LogStore = use }
				r.write(r.startAlone("peer-1"), "a-1")
				r.kill("peer-1")

				use = other
				c := r.config("peer-1")
				c.Log = slog.New(slog.DiscardHandler)
				if _, err := Open(c); err == nil || !strings.Contains(err.Error(), "keeps its log as "+kind) {
					t.Fatalf("opened as %s: %v", other, err)
				}
				for _, use = range []string{"", kind} {
					p := r.start("peer-1", -1)
					r.until("it leads again", func() bool { return p.IsLeader() && p.CaughtUp() })
					if _, ok := p.machine.State().Server("a-1"); !ok {
						t.Error("what was written is not there")
					}
					if inBolt, _ := p.files.bolt.LastIndex(); (inBolt > 0) != (kind == LogBolt) {
						t.Errorf("raft.db has %d entries", inBolt)
					}
					r.write(p, "b")
					r.kill("peer-1")
				}
			})
		})
	}
}

func TestTwoLogsInOneDirectoryAreRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.dir = t.TempDir()
		r.tune = func(c *Config) { c.LogStore = LogBolt }
		r.write(r.startAlone("peer-1"), "a-1")
		r.kill("peer-1")
		if err := os.Mkdir(filepath.Join(r.dir, "peer-1", walDir), 0o700); err != nil {
			t.Fatal(err)
		}
		c := r.config("peer-1")
		c.Log = slog.New(slog.DiscardHandler)
		if _, err := Open(c); err == nil || !strings.Contains(err.Error(), "from elsewhere") {
			t.Errorf("opened: %v", err)
		}
	})
}

// A byte that changes on the disk under a running peer ends it when the entry is read.
func TestARottenEntryOnDiskEndsThePeer(t *testing.T) {
	dir := t.TempDir()
	log, err := wal.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	var fatal error
	s := &guardedStore{backing: walStore{log, raft.NewInmemStore()}, log: slog.New(slog.DiscardHandler), fatal: func(err error) { fatal = err }}
	if !s.IsMonotonic() || (&guardedStore{backing: raft.NewInmemStore()}).IsMonotonic() {
		t.Error("raft is not told which store must have no gaps")
	}
	if err := s.StoreLog(entry(t, 1)); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "00000000000000000001.seg")
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	i := bytes.Index(data, []byte("cluster.create"))
	data[i] ^= 1
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	var out raft.Log
	if err := s.GetLog(1, &out); err != nil || fatal == nil {
		t.Errorf("read without a word: %v, %v", err, fatal)
	}
	if out.Type == raft.LogCommand && fsm.Verify(out.Data) == nil {
		t.Error("the rotten entry passes for a command")
	}
}

// A restart that finds the last write cut short goes on without it.
func TestAPeerComesBackAfterATornWrite(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.dir = t.TempDir()
		r.write(r.startAlone("peer-1"), "a-1")
		time.Sleep(time.Second)
		r.kill("peer-1")
		path := filepath.Join(r.dir, "peer-1", walDir, "00000000000000000001.seg")
		data, err := os.ReadFile(path)
		if err == nil {
			err = os.WriteFile(path, append(data, []byte("bwf1 and a part of what was to follow")...), 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
		p := r.start("peer-1", -1)
		r.until("it leads again", func() bool { return p.IsLeader() && p.CaughtUp() })
		if _, ok := p.machine.State().Server("a-1"); !ok {
			t.Error("what was written is not there")
		}
		r.write(p, "a-2")
	})
}
