package scheduler

import (
	"testing"
	"time"

	"berth/fleet"
)

func TestFailuresBackOff(t *testing.T) {
	w := f0(t)
	m := w.model("m", 1, 8, h100)
	f := NewFailures()
	at := time.Hour
	fail := func() {
		w.step()
		r := w.of("m", fleet.Starting)[0]
		r.State, r.Reason, r.Shards[0].Released = fleet.Failed, "bad weights", true
		f.Observe(at, w.Snapshot)
		f.Observe(at+time.Second, w.Snapshot) // the same failure, seen again
	}
	var where string
	for i, want := range []time.Duration{10, 20, 40, 80, 160, 320, 600, 600} {
		fail()
		if i == 0 {
			where = w.of("m", fleet.Failed)[0].Shards[0].Node
		}
		if got := f.Backoff(at, w.Snapshot.Replicas).Models["m"]; got.For != want*time.Second || got.Cause != "bad weights" {
			t.Fatalf("after %d failures: %+v, want %ds", i+1, got, want)
		}
	}
	if b := f.Backoff(at+lastDelay, nil); len(b.Models) != 0 {
		t.Errorf("held for ever: %+v", b)
	}
	if b := f.Backoff(at, nil); b.Pairs[Pair{"m", where}].For <= 0 {
		t.Errorf("%s is not held back for m: %+v", where, b.Pairs)
	}
	if next, ok := f.Backoff(at, nil).Next(); !ok || next <= 0 || next > lastDelay {
		t.Errorf("next %v %v", next, ok)
	}
	respec(m)
	f.Observe(at, w.Snapshot)
	if b := f.Backoff(at, nil); len(b.Models)+len(b.Pairs) != 0 {
		t.Errorf("a new generation is held back for the old one's failures: %+v", b)
	}
}

func TestSuccessEndsBackOff(t *testing.T) {
	w := newWorld(t)
	w.node("n1", "fa", h100, 8)
	w.model("m", 1, 1, h100)
	f := NewFailures()
	w.step()
	r := w.Replicas[0]
	r.State = fleet.Failed
	f.Observe(0, w.Snapshot)
	w.step()
	w.start()
	f.Observe(time.Second, w.Snapshot)
	if b := f.Backoff(time.Second, nil); len(b.Models)+len(b.Pairs) != 0 {
		t.Errorf("held back after a success: %+v", b)
	}
}

// Three different models failing on one node set it aside; one model failing three times does not.
func TestBrokenNodeIsSetAside(t *testing.T) {
	w := newWorld(t)
	w.node("n1", "fa", h100, 8)
	f := NewFailures()
	for i, name := range []string{"a", "b", "c"} {
		w.model(name, 1, 1, h100)
		for range 2 {
			r := w.put(name+string(rune('0'+len(w.Replicas))), name, "n1", i, 1)
			r.State, r.Reason = fleet.Failed, "cuda error"
		}
		f.Observe(0, w.Snapshot)
		if _, aside := f.Backoff(time.Second, nil).Nodes["n1"]; aside != (i == 2) {
			t.Errorf("after %d models: set aside %v", i+1, aside)
		}
	}
	if _, aside := f.Backoff(lastDelay, nil).Nodes["n1"]; aside {
		t.Error("set aside for ever")
	}
}

func TestGangWaitsLongerEachTime(t *testing.T) {
	w := f0(t)
	w.model("g", 2, 8, h100)
	w.settle(nil)
	g := w.Replicas[0]
	f := NewFailures()
	g.Shards[1].Exit = &fleet.Exit{Code: 1}
	f.Observe(0, w.Snapshot)
	f.Observe(300*time.Millisecond, w.Snapshot)
	if got := f.Backoff(400*time.Millisecond, w.Snapshot.Replicas).Restarts[g.ID].For; got != 600*time.Millisecond {
		t.Errorf("waits %v", got)
	}
	g.Shards[1].Exit, g.Start, g.Restarts = &fleet.Exit{Code: 1}, 2, 1
	f.Observe(10*time.Second, w.Snapshot)
	if got := f.Backoff(10*time.Second, w.Snapshot.Replicas).Restarts[g.ID].For; got != 2*time.Second {
		t.Errorf("the second time it waits %v", got)
	}
	if RestartDelay(60) != lastRestartDelay {
		t.Errorf("no bound: %v", RestartDelay(60))
	}
}
