package pool

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func TestRefusedConnectionIsImmediateEvidence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, row("m", ready("a"), ready("b")))
		b.get("m", &Hint{Avoid: []string{"b"}}).Release(Refused)
		for range 10 {
			l := b.get("m", nil)
			if l.Endpoint.Replica != "b" {
				t.Fatal("a refused connection was tried again at once")
			}
			l.Release(Served)
		}
		time.Sleep(firstAside)
		tried := 0
		for range 10 { // held: one trial at a time
			if b.get("m", nil).Endpoint.Replica == "a" {
				tried++
			}
		}
		if tried != 1 {
			t.Errorf("%d trials at once, want 1", tried)
		}
	})
}

func TestAloneAndRefusedIsSaidAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, row("m", ready("a")))
		b.get("m", nil).Release(Refused)
		if r := b.refused("m", &Hint{Avoid: []string{"a"}}); !r.Exhausted {
			t.Errorf("%v", r)
		}
		if r := b.refused("m", nil); !strings.Contains(r.Error(), "can be reached") || r.RetryAfter != firstAside {
			t.Errorf("%v in %v", r, r.RetryAfter)
		}
		for _, pause := range []time.Duration{1, 2, 4, 8, 16, 30, 30} {
			time.Sleep(pause*time.Second - 1)
			b.refused("m", nil)
			time.Sleep(time.Nanosecond)
			b.get("m", nil).Release(Refused)
		}
		time.Sleep(lastAside)
		b.get("m", nil).Release(Served)
		b.get("m", nil).Release(Served)
	})
}

func TestBreaker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, row("m", ready("a")))
		for range failuresToTry - 1 {
			b.get("m", nil).Release(Failed)
		}
		b.get("m", nil).Release(Served)
		for range 100 { // client errors say nothing, nor do they hide failures
			b.get("m", nil).Release(Nothing)
		}
		for range failuresToTry {
			b.get("m", nil).Release(Failed)
		}
		b.refused("m", nil)
		time.Sleep(firstAside)
		trial := b.get("m", nil)
		done := make(chan string)
		go func() {
			l, err := b.Acquire(context.Background(), "m", nil)
			if err != nil {
				done <- err.Error()
				return
			}
			l.Release(Served)
			done <- "served"
		}()
		synctest.Wait()
		trial.Answered() // before it ends: a stream may last for minutes
		if got := <-done; got != "served" {
			t.Error(got)
		}
		trial.Release(Served)
	})
}

func TestTrialThatSaysNothingFreesTheWayForAnother(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, row("m", ready("a")))
		b.get("m", nil).Release(Refused)
		time.Sleep(firstAside)
		b.get("m", nil).Release(Nothing)
		b.get("m", nil).Release(Served)
	})
}

func TestShutDoorIsAskedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, row("m", ready("a")))
		start := time.Now()
		hint := &Hint{Arrived: start}
		for range 4 { // never set aside, however often
			b.get("m", hint).Release(Shut)
		}
		b.get("m", hint).Release(Served)
		if d := time.Since(start); d != 4*shutPause {
			t.Errorf("after %v, want %v", d, 4*shutPause)
		}
		for {
			l, err := b.Acquire(context.Background(), "m", hint)
			if err != nil {
				var r *Refusal
				if !errors.As(err, &r) || time.Since(start) != time.Minute {
					t.Errorf("%v after %v", err, time.Since(start))
				}
				return
			}
			l.Release(Shut)
		}
	})
}

// TestPauseThatBeginsWhileOthersWait: they get the replica when its pause ends, though nobody else comes or goes then.
func TestPauseThatBeginsWhileOthersWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := row("m", ready("a"))
		r.Serve.MaxInFlight = 1
		b := newBench(t, r)
		first := b.get("m", nil)
		time.AfterFunc(10*time.Second, func() { first.Release(Shut) })
		start := time.Now()
		b.get("m", nil).Release(Served)
		if d := time.Since(start); d > 10*time.Second+shutPause+lookAgain {
			t.Errorf("waited %v", d)
		}
	})
}

func TestWrongKeyIsDroppedUntilTheNextTable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, row("m", ready("a"), ready("b")))
		b.get("m", &Hint{Avoid: []string{"b"}}).Release(WrongKey)
		for range 5 {
			if l := b.get("m", nil); l.Endpoint.Replica != "b" {
				t.Fatal("sent to a door that does not know the key")
			}
		}
		b.get("m", nil).Release(WrongKey)
		time.AfterFunc(20*time.Second, func() { b.table(row("m", ready("a"))) })
		if l := b.get("m", nil); l.Endpoint.Replica != "a" {
			t.Errorf("got %s", l.Endpoint.Replica)
		}
	})
}
