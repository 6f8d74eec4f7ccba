package pool

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"berth/fleet"
	"berth/fleet/wire"
)

func TestBurstSpreadsOverEquals(t *testing.T) {
	b := newBench(t, row("m", ready("a"), ready("b"), ready("c"), ready("d")))
	got := map[string]int{}
	for range 200 {
		got[b.get("m", nil).Endpoint.Replica]++
	}
	for id, n := range got {
		if n != 50 {
			t.Errorf("%s has %d of 200, want 50", id, n)
		}
	}
}

func TestSequenceSpreadsOverEquals(t *testing.T) {
	b := newBench(t, row("m", ready("a"), ready("b")))
	got := map[string]int{}
	for range 20 {
		l := b.get("m", nil)
		got[l.Endpoint.Replica]++
		l.Release(Served)
	}
	if got["a"] != 10 || got["b"] != 10 {
		t.Errorf("%v, want ten each", got)
	}
}

func TestBusyReplicaGetsNothingUntilLevel(t *testing.T) {
	b := newBench(t, row("m", ready("a")))
	for range 50 {
		b.get("m", nil)
	}
	b.table(row("m", ready("a"), ready("b")))
	for i := range 50 {
		if l := b.get("m", nil); l.Endpoint.Replica != "b" {
			t.Fatalf("request %d went to the busy replica", i)
		}
	}
}

func TestTiers(t *testing.T) {
	other := ready("new")
	other.Generation = 2
	for name, c := range map[string]struct {
		rows []wire.Endpoint
		want string
	}{
		"unmarked before lost":              {[]wire.Endpoint{lost("l"), ready("r")}, "r"},
		"lost if there is no other":         {[]wire.Endpoint{lost("l")}, "l"},
		"unloading if it is the only one":   {[]wire.Endpoint{unloading("u")}, "u"},
		"ready before unloading":            {[]wire.Endpoint{unloading("u"), ready("r")}, "r"},
		"unloading before lost":             {[]wire.Endpoint{lost("l"), unloading("u")}, "u"},
		"lost of an old generation is gone": {[]wire.Endpoint{lost("l"), other}, "new"},
	} {
		b := newBench(t, row("m", c.rows...))
		for range 3 {
			if l := b.get("m", nil); l.Endpoint.Replica != c.want {
				t.Errorf("%s: got %s", name, l.Endpoint.Replica)
			}
		}
	}
}

func TestFullReplicas(t *testing.T) {
	full := func(e ...wire.Endpoint) wire.TableModel {
		r := row("m", e...)
		r.Serve.MaxInFlight = 1
		return r
	}
	t.Run("a lost one helps out", func(t *testing.T) {
		b := newBench(t, full(ready("r"), lost("l")))
		if first, second := b.get("m", nil), b.get("m", nil); first.Endpoint.Replica != "r" || second.Endpoint.Replica != "l" {
			t.Errorf("%s then %s", first.Endpoint.Replica, second.Endpoint.Replica)
		}
	})
	t.Run("an unload is not undone; who waits is served in order", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			b := newBench(t, full(ready("r"), unloading("u")))
			held := b.get("m", nil)
			var order []int
			var wg sync.WaitGroup
			for i := range 3 {
				wg.Go(func() {
					l := b.get("m", nil)
					order = append(order, i) // one at a time: max_in_flight is 1
					if l.Endpoint.Replica != "r" {
						t.Errorf("got %s", l.Endpoint.Replica)
					}
					l.Release(Served)
				})
				synctest.Wait()
			}
			if d := b.Demand(); len(d) != 0 {
				t.Errorf("demand %v for a model with a ready replica", d)
			}
			held.Release(Served)
			wg.Wait()
			if order[0] != 0 || order[1] != 1 || order[2] != 2 {
				t.Errorf("order %v", order)
			}
		})
	})
}

func TestQueueBounds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, row("m"))
		var wg sync.WaitGroup
		start := time.Now()
		for range 5 {
			wg.Go(func() {
				if r := b.refused("m", nil); !strings.Contains(r.Error(), "within 1m0s") || r.RetryAfter <= 0 {
					t.Errorf("%v %v", r, r.RetryAfter)
				}
			})
		}
		synctest.Wait()
		if r := b.refused("m", nil); !strings.Contains(r.Error(), "no more may") || r.RetryAfter <= 0 || !errors.Is(r, fleet.NotReady) {
			t.Errorf("%v", r)
		}
		wg.Wait()
		if d := time.Since(start); d != time.Minute {
			t.Errorf("waited %v, want 1m", d)
		}
	})
}

// TestWake: a burst on a model at zero is one demand; held requests follow the model to whatever address it gets, each time.
func TestWake(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, row("m"))
		for round, id := range []string{"r1", "r2", "r3"} {
			var wg sync.WaitGroup
			for range 5 {
				wg.Go(func() {
					l := b.get("m", nil)
					if l.Endpoint.Replica != id {
						t.Errorf("round %d: got %s, want %s", round, l.Endpoint.Replica, id)
					}
					l.Release(Served)
				})
			}
			time.Sleep(3 * time.Second)
			synctest.Wait()
			if d := b.Demand(); len(d) != 1 || d["m"] != (wire.Demand{Waiting: 5, Oldest: 3}) {
				t.Errorf("round %d: demand %v", round, d)
			}
			b.table(row("m", ready(id)))
			wg.Wait()
			if d := b.Demand(); len(d) != 0 {
				t.Errorf("round %d: demand %v after the wake", round, d)
			}
			b.table(row("m"))
		}
	})
}

func TestCannotIsSaidAtOnceAndStillReported(t *testing.T) {
	r := row("m")
	r.Cannot = "12 nodes: 8 x h100 busy"
	b := newBench(t, r)
	if r := b.refused("m", nil); !strings.Contains(r.Error(), "8 x h100 busy") || r.RetryAfter <= 0 {
		t.Errorf("%v", r)
	}
	if d := b.Demand(); d["m"].Waiting != 1 {
		t.Errorf("demand %v: the leader must know that somebody asked", d)
	}
	if d := b.Demand(); len(d) != 0 {
		t.Errorf("demand %v told twice", d)
	}
}

func TestWaitEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, row("m"))
		quit := errors.New("the client went")
		stop := make(chan struct{})
		for name, c := range map[string]struct {
			hint *Hint
			want string
			end  time.Duration
		}{
			"context": {&Hint{}, "deadline exceeded", 7 * time.Second},
			"beat":    {&Hint{Waiting: func() error { return quit }, WaitingAfter: 2 * time.Second, WaitingEvery: time.Second}, "client went", 2 * time.Second},
			"stop":    {&Hint{Stop: stop}, "being stopped", 3 * time.Second},
			"removed": {&Hint{}, "does not exist", 5 * time.Second},
		} {
			start := time.Now()
			time.AfterFunc(3*time.Second, func() {
				if name == "stop" {
					close(stop)
				}
			})
			time.AfterFunc(5*time.Second, func() {
				if name == "removed" {
					b.table()
				}
			})
			use := t.Context()
			if name == "context" {
				var cancel context.CancelFunc
				use, cancel = context.WithTimeout(use, 7*time.Second)
				defer cancel()
			}
			b.table(row("m"))
			_, err := b.Acquire(use, "m", c.hint)
			if err == nil || !strings.Contains(err.Error(), c.want) || time.Since(start) != c.end {
				t.Errorf("%s: %v after %v", name, err, time.Since(start))
			}
			time.Sleep(10 * time.Second)
		}
	})
}

func TestGrantToAWaiterThatLeavesIsGivenBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, row("m"))
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		for range 5 {
			wg.Go(func() {
				if l, err := b.Acquire(ctx, "m", nil); err == nil {
					l.Release(Nothing)
				}
			})
		}
		synctest.Wait()
		cancel()
		b.table(row("m", ready("a")))
		wg.Wait()
		if n := b.inFlight("a"); n > 0 {
			t.Errorf("%d in flight, want none", n)
		}
	})
}

func TestBeforeTheFirstTable(t *testing.T) {
	b := newBench(t)
	if r := b.refused("m", nil); !errors.Is(r, fleet.NotReady) || r.RetryAfter <= 0 {
		t.Errorf("%v", r)
	}
	b.table(row("m", ready("a")))
	if r := b.refused("M", nil); !errors.Is(r, fleet.NotFound) {
		t.Errorf("%v: names keep their case", r)
	}
}

func TestNameGoesBeforeAlias(t *testing.T) {
	a := row("a", ready("ra"))
	a.Aliases = []string{"b", "c"}
	b := newBench(t, a, row("b", ready("rb")))
	for name, want := range map[string]string{"a": "ra", "b": "rb", "c": "ra"} {
		if l := b.get(name, nil); l.Endpoint.Replica != want {
			t.Errorf("%s went to %s", name, l.Endpoint.Replica)
		}
	}
}
