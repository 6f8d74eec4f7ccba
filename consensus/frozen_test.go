package consensus

import (
	"flag"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"berth/internal/durable"
)

var freeze = flag.String("freeze", "", "make fixtures of this release, under this name, for every later one to open (make fixture NAME=...)")

const frozenDir = "testdata/frozen"

// TestFrozenDataDirectories opens the data directory that each release has left: a snapshot, entries after it and before it, term and vote. A peer
// must come up on it with all that was acknowledged, and write on.
func TestFrozenDataDirectories(t *testing.T) {
	if *freeze != "" {
		freezeDirectory(t, filepath.Join(frozenDir, *freeze))
	}
	dirs, err := filepath.Glob(filepath.Join(frozenDir, "*"))
	if err != nil || len(dirs) == 0 {
		t.Fatalf("no data directories in %s: %v", frozenDir, err)
	}
	for _, dir := range dirs {
		t.Run(filepath.Base(dir), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t)
				r.dir = t.TempDir()
				copyDir(t, filepath.Join(r.dir, "peer-1"), dir)
				p := r.start("peer-1", -1)
				r.until("the peer leads", func() bool { return p.IsLeader() && p.CaughtUp() })
				for _, id := range []string{"in-the-snapshot", "in-the-log"} {
					if _, ok := p.machine.State().Server(id); !ok {
						t.Errorf("%s is not there", id)
					}
				}
				r.write(p, "after")
			})
		})
	}
}

func freezeDirectory(t *testing.T, to string) {
	if _, err := os.Stat(to); err == nil {
		t.Fatalf("%s exists; what is frozen is not made anew", to)
	}
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.dir = t.TempDir()
		p := r.startAlone("peer-1")
		r.write(p, "in-the-snapshot")
		if err := p.SnapshotNow(t.Context()); err != nil {
			t.Fatal(err)
		}
		r.write(p, "in-the-log")
		time.Sleep(time.Second)
		r.kill("peer-1")
		copyDir(t, to, filepath.Join(r.dir, "peer-1"))
	})
}

// copyDir copies what a data directory holds, without its lock.
func copyDir(t *testing.T, to, from string) {
	t.Helper()
	err := filepath.WalkDir(from, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(from, path)
		if err != nil || d.Name() == "LOCK" {
			return err
		}
		if d.IsDir() {
			return os.MkdirAll(filepath.Join(to, rel), durable.DirMode)
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		return os.WriteFile(filepath.Join(to, rel), data, durable.FileMode)
	})
	if err != nil {
		t.Fatal(err)
	}
}
