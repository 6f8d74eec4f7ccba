package shim_test

import (
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"berth/agent/shim"
	"berth/fleet"
	"berth/fleet/wire"
)

// about allows an engine the moment that its end takes.
func about(got, want time.Duration) bool { return got >= want && got-want < 10*time.Millisecond }

func seconds(n int) fleet.Duration { return fleet.Duration(n) * fleet.Duration(time.Second) }

// C10: a stop lets what is in flight end, holds its minimum, and nothing new gets in after it.
func TestDrainUnderLoad(t *testing.T) {
	inBubble(t, always(script{}), nil, func(g *rig) {
		g.phase(shim.Ready)
		var all sync.WaitGroup
		var long string
		began := time.Now()
		all.Go(func() { long = g.post(60) })
		time.Sleep(5 * time.Second)
		g.order(stop(2, fleet.Drain{Reason: "deleted", Minimum: seconds(5), Deadline: seconds(90)}))
		late := map[string]int{}
		time.Sleep(50 * time.Millisecond) // so that no request comes at the moment at which the door shuts
		for range 100 {                   // ten requests a second: five seconds of minimum, then the door is shut
			late[g.post(0)]++
			time.Sleep(100 * time.Millisecond)
		}
		st, _ := g.phase(shim.Stopped)
		all.Wait()
		if long != "whole" || time.Since(began) < 60*time.Second || time.Since(began) > 61*time.Second {
			t.Errorf("the long stream was %q, stopped after %v", long, time.Since(began))
		}
		if late["whole"] != 50 || late["shut"] != 50 {
			t.Errorf("late requests: %v", late)
		}
		if st.Cut != 0 || !st.DoorShut || st.Reason != "deleted" || st.Order.N != 2 || st.Exit != nil {
			t.Errorf("status %+v", st)
		}
		if got := g.post(0); got != "shut" {
			t.Errorf("afterwards a request was %q", got)
		}
	})
}

func TestMinimumHoldsWithoutRequests(t *testing.T) {
	inBubble(t, always(script{}), nil, func(g *rig) {
		_, ready := g.phase(shim.Ready)
		g.order(stop(2, fleet.Drain{Minimum: seconds(10), Deadline: seconds(60)}))
		if _, at := g.phase(shim.Stopped); !about(at-ready, 10*time.Second) {
			t.Errorf("stopped after %v, want 10 s", at-ready)
		}
	})
}

func TestDeadlineCutsAndCounts(t *testing.T) {
	inBubble(t, always(script{ignoreTerm: true}), func(l *shim.Launch) { l.Grace = seconds(20) }, func(g *rig) {
		_, ready := g.phase(shim.Ready)
		var all sync.WaitGroup
		for range 3 {
			all.Go(func() {
				if got := g.post(3600); got != "cut" {
					t.Errorf("a request over the deadline was %q", got)
				}
			})
		}
		synctest.Wait()
		g.order(stop(2, fleet.Drain{Minimum: seconds(1), Deadline: seconds(30)}))
		st, _ := g.phase(shim.Stopping)
		if st.Cut != 3 || !st.DoorShut {
			t.Errorf("at the deadline: %+v", st)
		}
		if _, at := g.phase(shim.Stopped); !about(at-ready, 50*time.Second) {
			t.Errorf("an engine deaf to SIGTERM ended after %v, want 30 s and a grace of 20 s", at-ready)
		}
		all.Wait()
		if r := g.reading(); r.InFlight != 0 || r.Admissions != 3 {
			t.Errorf("afterwards %+v", r)
		}
	})
}

func TestStopWhileLoading(t *testing.T) {
	inBubble(t, always(script{load: time.Hour}), nil, func(g *rig) {
		time.Sleep(time.Minute)
		g.order(stop(2, fleet.Drain{Minimum: seconds(5), Deadline: seconds(60)}))
		if st, at := g.phase(shim.Stopped); at != time.Minute || st.Restarts != 0 || st.Exit != nil {
			t.Errorf("after %v: %+v", at, st)
		}
	})
}

func TestConditionalDrain(t *testing.T) {
	mark := func(r wire.Reading) *fleet.Mark {
		return &fleet.Mark{Shim: r.Shim, Engine: r.Engine, Admissions: r.Admissions}
	}
	inBubble(t, always(script{}), nil, func(g *rig) {
		g.phase(shim.Ready)
		old := g.reading()
		g.post(0) // the knock after the reading
		g.order(stop(2, fleet.Drain{Reason: "quiet", Minimum: seconds(5), Deadline: seconds(60), Mark: mark(old)}))
		st, _ := g.until("an answer", func(s shim.Status) bool { return s.Order.N == 2 })
		if st.Phase != shim.Ready || !st.Withdrawn || g.post(0) != "whole" {
			t.Errorf("a door that was knocked at: %+v", st)
		}
		g.order(order(3, nil))
		if st, _ := g.until("the next order", func(s shim.Status) bool { return s.Order.N == 3 }); st.Withdrawn || st.Phase != shim.Ready {
			t.Errorf("after it %+v", st)
		}
		_, before := g.phase(shim.Ready)
		g.order(stop(4, fleet.Drain{Reason: "quiet", Minimum: seconds(5), Deadline: seconds(60), Mark: mark(g.reading())}))
		if st, at := g.phase(shim.Stopped); !about(at, before) || st.Withdrawn || !st.DoorShut || g.post(0) != "shut" {
			t.Errorf("a quiet door: after %v %+v", at-before, st)
		}
	})
}

func TestStopTakenBack(t *testing.T) {
	inBubble(t, always(script{}), nil, func(g *rig) {
		g.phase(shim.Ready)
		var all sync.WaitGroup
		all.Go(func() {
			if got := g.post(30); got != "whole" {
				t.Errorf("the long request was %q", got)
			}
		})
		synctest.Wait()
		g.order(stop(2, fleet.Drain{Minimum: seconds(1), Deadline: seconds(60)}))
		time.Sleep(5 * time.Second)
		if got := g.post(0); got != "shut" {
			t.Errorf("while draining a request was %q", got)
		}
		g.order(order(3, nil))
		st, _ := g.until("the order", func(s shim.Status) bool { return s.Order.N == 3 })
		if st.Phase != shim.Ready || st.DoorShut || g.post(0) != "whole" {
			t.Errorf("taken back: %+v", st)
		}
		all.Wait()
		time.Sleep(time.Hour)
		if st, _ := g.h.Status(g.t.Context(), 0); st.Phase != shim.Ready || st.Engine != 1 {
			t.Errorf("an hour later %+v", st)
		}
	})
}

func TestTakenBackTooLateStartsAgain(t *testing.T) {
	inBubble(t, always(script{}), nil, func(g *rig) {
		g.phase(shim.Ready)
		g.order(stop(2, fleet.Drain{}))
		g.phase(shim.Stopped)
		g.order(order(3, nil))
		st, _ := g.until("ready", func(s shim.Status) bool { return s.Phase == shim.Ready })
		if st.Engine != 2 || st.Order.N != 3 || g.post(0) != "whole" {
			t.Errorf("%+v", st)
		}
	})
}

func TestOrdersGoForwardOnly(t *testing.T) {
	inBubble(t, always(script{}), nil, func(g *rig) {
		g.phase(shim.Ready)
		g.order(order(5, nil))
		g.order(order(5, nil)) // the same once more
		err := g.h.Order(g.t.Context(), stop(4, fleet.Drain{}))
		if !errors.Is(err, fleet.TooOld) {
			t.Errorf("an older order: %v", err)
		}
		other := order(6, func(o *wire.Order) { o.Replica = "r-1.1.2" })
		if err := g.h.Order(g.t.Context(), other); !errors.Is(err, fleet.BadRequest) {
			t.Errorf("another replica's order: %v", err)
		}
		newer := stop(1, fleet.Drain{})
		newer.ID.Epoch = 2
		g.order(newer)
		g.phase(shim.Stopped)
	})
}

func TestRestartInPlaceDrains(t *testing.T) {
	inBubble(t, always(script{}), nil, func(g *rig) {
		g.phase(shim.Ready)
		var all sync.WaitGroup
		all.Go(func() {
			if got := g.post(10); got != "whole" {
				t.Errorf("the request before the restart was %q", got)
			}
		})
		synctest.Wait()
		g.order(order(2, func(o *wire.Order) { o.Start = 2 }))
		st, _ := g.until("ready again", func(s shim.Status) bool { return s.Engine == 2 && s.Phase == shim.Ready })
		all.Wait()
		if st.Start != 2 || st.Restarts != 0 || st.Exit != nil || st.DoorShut || g.post(0) != "whole" {
			t.Errorf("%+v", st)
		}
	})
}
