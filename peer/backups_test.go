package peer

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"berth/admin/client"
	"berth/fsm"
)

// schedule is a peer's schedule over a state that a test changes.
func schedule(dir string, state func() *fsm.State) *backups {
	return &backups{
		Backups: Backups{Dir: dir, Every: time.Hour, Keep: 3}, log: slog.New(slog.DiscardHandler), peer: "peer-1", state: state,
		caught: func() bool { return true }, began: time.Now(),
	}
}

func files(t *testing.T, dir string) (out []string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		out = append(out, e.Name())
	}
	return out
}

func TestBackupsBySchedule(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		other := "berth-peer-2-20000101T000000Z-1.1.snapshot"
		if err := os.WriteFile(filepath.Join(dir, other), []byte("of another peer"), 0o600); err != nil {
			t.Fatal(err)
		}
		m := fsm.New()
		data, err := fsm.Encode(fsm.Meta{}, fsm.ClusterCreate{ID: "c-1"})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := m.Apply(7, data); err != nil {
			t.Fatal(err)
		}
		b := schedule(dir, m.State)
		ctx, end := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- b.run(ctx) }()
		time.Sleep(5*time.Hour + time.Minute)
		kept := files(t, dir)
		if kept = slices.DeleteFunc(kept, func(f string) bool { return f == other }); len(kept) != 3 || len(files(t, dir)) != 4 || !strings.HasPrefix(kept[0], "berth-peer-1-2000") || !strings.HasSuffix(kept[0], "-1.7.snapshot") {
			t.Errorf("after five hours: %v", kept)
		}
		w := b.word()
		if w == nil || w.File != kept[2] || w.AgeSeconds > 120 || len(b.warnings()) > 0 {
			t.Errorf("its word: %+v, warnings %v", w, b.warnings())
		}
		info, err := os.Stat(filepath.Join(dir, kept[2]))
		if err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%v, %v", info, err)
		}
		end()
		if err := <-done; err != nil {
			t.Fatal(err)
		}
		again := schedule(dir, m.State) // the next start goes on where this one was
		again.find()
		if w := again.word(); w == nil || w.File != kept[2] || again.due() {
			t.Errorf("after a restart: %+v, due %v", w, again.due())
		}
	})
}

// What was written is held against what it was made of. A failure leaves nothing behind, and files of others are let be.
func TestABackupThatIsNotGoodIsNone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		file := filepath.Join(dir, "f")
		empty, one := fsm.New(), fsm.New()
		data, err := fsm.Encode(fsm.Meta{}, fsm.ClusterCreate{ID: "c-1"})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := one.Apply(7, data); err != nil {
			t.Fatal(err)
		}
		if err := writeBackup(file, one.State()); err != nil {
			t.Fatal(err)
		}
		if err := sameState(file, one.State()); err != nil {
			t.Errorf("a good file: %v", err)
		}
		if err := sameState(file, empty.State()); err == nil || !strings.Contains(err.Error(), "reads back as") {
			t.Errorf("a file of another state: %v", err)
		}
		if err := os.Truncate(file, 40); err != nil {
			t.Fatal(err)
		}
		if err := sameState(file, one.State()); err == nil || !strings.Contains(err.Error(), "cannot be read back") {
			t.Errorf("a file that was cut: %v", err)
		}
		b := schedule(filepath.Join(file, "below-a-file"), one.State)
		b.attempt()
		if w := b.warnings(); b.word() != nil || len(w) != 1 || !strings.Contains(w[0], "failed") || !b.due() {
			t.Errorf("%v, %v", b.word(), w)
		}
		b.failed = nil
		time.Sleep(2 * time.Hour)
		if w := b.warnings(); len(w) != 1 || !strings.Contains(w[0], "no backup") {
			t.Errorf("two hours without one: %v", w)
		}
	})
}

// Any peer's status says what any other wants a person to see about itself, and how old the newest backup is.
func TestAPeersOwnTroubleIsInEverybodysStatus(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		defer r.stopAll()
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, "in-the-way"), nil, 0o600); err != nil {
			t.Fatal(err)
		}
		r.tune = func(c *Config) {
			switch c.Name {
			case "peer-2":
				c.Backups = Backups{Dir: filepath.Join(dir, "good")}
			case "peer-3":
				c.Backups = Backups{Dir: filepath.Join(dir, "in-the-way")}
			}
		}
		r.three()
		r.leader()
		for _, asked := range []string{"peer-1", "peer-2", "peer-3"} {
			r.until(time.Minute, asked+" says it", func() bool {
				s, _, err := r.client(asked).Status(t.Context(), client.ReadOptions{})
				if err != nil || s.Backup == nil || s.Backup.Peer != "peer-2" {
					return false
				}
				return slices.ContainsFunc(s.Attention, func(line string) bool { return strings.HasPrefix(line, "peer peer-3: its last backup to") })
			})
		}
	})
}
