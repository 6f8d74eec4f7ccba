package consensus

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"

	"berth/internal/durable"
)

// A peer does not start on a copy of a data directory until an operator has said that it is the only one.
func TestDataDirectoryThatWasCopiedIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.dir = t.TempDir()
		r.write(r.startAlone("peer-1"), "a")
		r.kill("peer-1")
		dir := filepath.Join(r.dir, "peer-1")
		was := dir + ".original"
		if err := os.Rename(dir, was); err != nil {
			t.Fatal(err)
		}
		copyDir(t, dir, was)
		c := r.config("peer-1")
		c.Log = quiet()
		if _, err := Open(c); !errors.Is(err, durable.ErrMoved) || !strings.Contains(err.Error(), "recover --moved") {
			t.Fatalf("a copy: %v", err)
		}
		m, err := PrepareMove(t.Context(), dir, quiet())
		if err != nil {
			t.Fatal(err)
		}
		if d := m.Diff(); !strings.Contains(d, "- machine") || !strings.Contains(d, "+ machine") {
			t.Errorf("diff:\n%s", d)
		}
		if err := errors.Join(m.Commit(), m.Close()); err != nil {
			t.Fatal(err)
		}
		p := r.start("peer-1", -1)
		r.until("it leads", func() bool { return p.IsLeader() && p.CaughtUp() })
		if _, ok := p.machine.State().Server("a"); !ok {
			t.Error("what was written is not there")
		}
	})
}
