package pool

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

var patience = Patience{Stream: 30 * time.Second, First: 2 * time.Minute, Cut: 2 * time.Minute}

// watched looks once a second for d and returns what was set aside.
func (b *bench) watched(d time.Duration) (hung []string) {
	for range int(d / time.Second) {
		time.Sleep(time.Second)
		hung = append(hung, b.Watch(patience)...)
	}
	return hung
}

// on acquires a stream on the replica.
func (b *bench) on(replica string) *Lease {
	b.Helper()
	hint := &Hint{Stream: true}
	for _, r := range b.known["m"].replicas {
		if r.Replica != replica {
			hint.Avoid = append(hint.Avoid, r.Replica)
		}
	}
	return b.get("m", hint)
}

// TestTokensThatDoNotMove: field case C52's neighbour. A replica whose begun stream stands still is set aside, what waits
// there for its first byte is told, and the first byte that comes ends it.
func TestTokensThatDoNotMove(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, row("m", ready("a"), ready("b"), ready("c")))
		stuck, waits := b.on("a"), b.on("a")
		stuck.Answered()
		if hung := b.watched(29 * time.Second); hung != nil {
			t.Errorf("%v hung too early", hung)
		}
		if hung := b.watched(3 * time.Second); !slices.Equal(hung, []string{"a"}) || waits.Hung().Err() == nil {
			t.Errorf("%v hung; what waits: %v", hung, waits.Hung().Err())
		}
		for range 10 {
			l := b.get("m", nil)
			if l.Endpoint.Replica == "a" {
				t.Error("a hung replica is chosen")
			}
			l.Release(Served) // at another one
		}
		stuck.Moved()
		b.watched(time.Second)
		b.on("a").Release(Served)
	})
}

func TestOneLongPromptIsNotHung(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, row("m", ready("a"), ready("b")))
		b.on("a")
		if hung := b.watched(10 * time.Minute); hung != nil {
			t.Errorf("%v", hung)
		}
		b.on("a")
		if hung := b.watched(2 * time.Minute); len(hung) != 1 {
			t.Errorf("%v hung, with two streams that wait", hung)
		}
	})
}

// TestNeverAllHung: most replicas stand still at the same moment, and half of them stay in use.
func TestNeverAllHung(t *testing.T) {
	for n := 1; n <= 5; n++ {
		synctest.Test(t, func(t *testing.T) {
			b := newBench(t)
			rows := row("m")
			for i := range n {
				rows.Endpoints = append(rows.Endpoints, ready(fmt.Sprint("r", i)))
			}
			b.table(rows)
			for range n {
				b.get("m", &Hint{Stream: true}).Answered()
			}
			if hung := b.watched(10 * time.Minute); len(slices.Compact(slices.Sorted(slices.Values(hung)))) != n/2 {
				t.Errorf("%v of %d are set aside, want %d", hung, n, n/2)
			}
			b.get("m", nil)
		})
	}
}

// TestAHungTrialDoublesThePause: who tries a hung replica is sent elsewhere in turn, and less and less often.
func TestAHungTrialDoublesThePause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, row("m", ready("a"), ready("b")))
		b.on("a").Answered()
		b.watched(32 * time.Second)
		trial := b.on("a")
		if !trial.trial {
			t.Fatal("the first request after the pause is no trial")
		}
		if hung := b.watched(31 * time.Second); len(hung) != 1 || trial.Hung().Err() == nil {
			t.Errorf("%v", hung)
		}
		trial.Release(Failed)
		if p := b.known["m"].replicas[0].trouble.pause; p < 2*firstAside {
			t.Errorf("pause %v", p)
		}
	})
}

// TestFairQueue: one client's fifty requests wait before another's three, which go between them.
func TestFairQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := row("m", ready("a"))
		r.Serve.MaxInFlight, r.Serve.Queue.Limit = 1, 100
		b := newBench(t, r)
		held := b.get("m", nil)
		var order []string
		ask := func(key string) {
			go func() {
				l, err := b.Acquire(context.Background(), "m", &Hint{Key: key})
				if err != nil {
					t.Error(err)
					return
				}
				order = append(order, key)
				l.Release(Served)
			}()
			synctest.Wait()
		}
		for range 50 {
			ask("greedy")
		}
		for range 3 {
			ask("modest")
		}
		held.Release(Served)
		synctest.Wait()
		if last := len(order) - 1 - slices.Index(reversed(order), "modest"); len(order) != 53 || last > 6 {
			t.Errorf("the modest client's last request was number %d of %d", last, len(order))
		}
	})
}

// TestAFullQueueMakesRoom: who has least in a full queue gets a place, from who has most.
func TestAFullQueueMakesRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := row("m", ready("a"))
		r.Serve.MaxInFlight, r.Serve.Queue.Limit = 1, 5
		b := newBench(t, r)
		b.get("m", nil)
		ctx, cancel := context.WithCancel(t.Context())
		ended := map[string]int{}
		for _, key := range []string{"greedy", "greedy", "greedy", "greedy", "greedy", "greedy", "modest", "modest", "modest"} {
			go func() {
				_, err := b.Acquire(ctx, "m", &Hint{Key: key})
				if ctx.Err() == nil && err != nil {
					ended[key]++
				}
			}()
			synctest.Wait()
		}
		if ended["greedy"] != 3 || ended["modest"] != 1 { // three of each client's remain at most
			t.Errorf("sent away: %v", ended)
		}
		cancel()
		synctest.Wait()
	})
}

func reversed(s []string) []string {
	s = slices.Clone(s)
	slices.Reverse(s)
	return s
}
