package process

import (
	"context"
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"

	"berth/agent/shim"
	"berth/fleet"
	"berth/fleet/wire"
	"berth/internal/durable"
)

// Every keeper and the crew look for shims whenever they like. Whoever looks while another buries a dead shim must not take it for one that lives, or for
// one whose folder is gone: then nothing would be known of an engine that SIGKILL cannot end.
func TestManyLookForADeadShim(t *testing.T) {
	g := newRig(t)
	h := g.start(launch(t))
	g.ready(h)
	s := recorded(t, h)
	first := watchExit(t, s.Shim.PID)
	if err := syscall.Kill(s.Shim.PID, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	first.wait(t, "the shim")
	var all sync.WaitGroup
	found := make([]shim.Found, 16)
	for i := range found {
		all.Go(func() {
			var err error
			if found[i], err = g.p.Find(t.Context()); err != nil {
				t.Error(err)
			}
			_ = h.(*handle).failed(os.ErrClosed) // a call that fails looks, too
		})
	}
	all.Wait()
	for i, f := range found {
		if len(f.Live) != 0 || len(f.Dead) != 1 || len(f.Unmanaged) != 0 {
			t.Errorf("search %d found %+v", i, f)
		}
	}
}

// A folder that is being prepared is neither a shim that does not answer nor one that cannot be read.
func TestAStartIsNotFoundHalfDone(t *testing.T) {
	g := newRig(t)
	fifo := filepath.Join(t.TempDir(), "fifo")
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	g.p.cfg.Command = []string{"/bin/sh", "-c", "read line < " + fifo + "; echo no >&2; exit 1"}
	failed := make(chan error, 1)
	go func() {
		_, err := g.p.Start(t.Context(), launch(t))
		failed <- err
	}()
	w, err := os.OpenFile(fifo, os.O_WRONLY, 0) // opens when the first stage reads
	if err != nil {
		t.Fatal(err)
	}
	found := g.find()
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if err := <-failed; err == nil || !strings.Contains(err.Error(), "no") {
		t.Errorf("a first stage that fails: %v", err)
	}
	if len(found.Live)+len(found.Dead)+len(found.Unmanaged) != 0 {
		t.Errorf("found %+v", found)
	}
}

// A copy of a data directory tells of shims that live elsewhere. They are not taken for dead, and their engines are not ended.
func TestACopyEndsNobodysEngine(t *testing.T) {
	g := newRig(t)
	h := g.start(launch(t))
	st := g.ready(h)
	s := recorded(t, h)
	copied := filepath.Join(t.TempDir(), "copy")
	from, to := h.(*handle).folder, folder(filepath.Join(copied, "shims", strconv.FormatUint(st.Shim, 10)))
	if err := durable.MakeDir(string(to)); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{launchFile, stateFile, lockFile} { // a socket cannot be copied
		b, err := os.ReadFile(from.file(name))
		if err == nil {
			err = os.WriteFile(to.file(name), b, durable.FileMode)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	other, err := newProcesses(copied)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	found, err := other.Find(ctx)
	if err == nil || !strings.Contains(err.Error(), string(h.(*handle).folder)) {
		t.Errorf("the copy: %+v, %v", found, err)
	}
	if !s.Shim.alive() || !s.Engine.alive() {
		t.Fatal("the original was ended")
	}
	if got := g.ask(st); got != strconv.Itoa(s.Engine.PID) {
		t.Errorf("the original answers %q", got)
	}
}

// A shim lives as long as its engine, so that agents of later releases speak to it: an order that says more than it knows is an order all the same.
func TestAnOrderOfANewerAgentIsTaken(t *testing.T) {
	g := newRig(t)
	h := g.start(launch(t))
	g.ready(h)
	o := shim.Order{Order: h.Launch().Order}
	o.ID.N, o.Action, o.Drain = o.ID.N+1, wire.ActionStop, &fleet.Drain{Reason: "deleted"}
	b, err := json.Marshal(o)
	var fields map[string]any
	if err == nil {
		err = json.Unmarshal(b, &fields)
	}
	if err != nil {
		t.Fatal(err)
	}
	fields["of_a_later_release"] = true
	fields["spec"].(map[string]any)["as_well"] = map[string]any{"x": 1}
	if err := h.(*handle).call(t.Context(), http.MethodPost, "/order", fields, &struct{}{}); err != nil {
		t.Fatal(err)
	}
	g.until(h, "stopped", func(s shim.Status) bool { return s.Phase == shim.Stopped })
}
