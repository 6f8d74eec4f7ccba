package shim_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"berth/agent/shim"
	"berth/fleet"
	"berth/fleet/wire"
)

func rank(n int) func(*wire.Order) {
	return func(o *wire.Order) {
		o.Rank, o.Ranks = n, []wire.RankAddress{{Node: "gpu-017"}, {Node: "gpu-018"}}
	}
}

func gang(n int) func(*shim.Launch) {
	return func(l *shim.Launch) {
		rank(n)(&l.Order)
		if n > 0 {
			l.Program.Engine = ""
		}
	}
}

func TestGangWaitsForANewStart(t *testing.T) {
	inBubble(t, func(n int) script {
		if n == 1 {
			return script{dieAfter: time.Minute, code: 1}
		}
		return script{}
	}, gang(0), func(g *rig) {
		st, at := g.phase(shim.Exited)
		if at != time.Minute || st.Exit.Code != 1 || st.DoorShut || g.post(0) != "starting" {
			t.Errorf("after %v: %+v", at, st)
		}
		g.order(order(2, rank(0))) // no new start number
		g.until("the order", func(s shim.Status) bool { return s.Order.N == 2 && s.Phase == shim.Exited })
		time.Sleep(time.Hour)
		if n := len(g.startTimes()); n != 1 {
			t.Fatalf("%d starts without an order", n)
		}
		again := order(3, rank(0))
		again.Start, again.Program = 2, &shim.Program{Args: []string{"engine"}, Engine: engineAddr, Master: "192.0.2.17:29501"}
		g.order(again)
		st, _ = g.phase(shim.Ready)
		if st.Engine != 2 || st.Start != 2 || st.Master != "192.0.2.17:29501" {
			t.Errorf("%+v", st)
		}
	})
}

func TestNewStartEndsASurvivor(t *testing.T) {
	inBubble(t, always(script{load: time.Hour, ignoreTerm: true}), gang(1), func(g *rig) {
		if st, at := g.phase(shim.Ready); at != 0 || st.Door != nil {
			t.Errorf("a headless rank: after %v %+v", at, st)
		}
		again := order(2, rank(1))
		again.Start = 2
		g.order(again)
		if st, at := g.until("the new start", func(s shim.Status) bool { return s.Engine == 2 }); at != 0 || st.Start != 2 {
			t.Errorf("after %v %+v", at, st)
		}
	})
}

func TestRankWaitsForTheDoor(t *testing.T) {
	inBubble(t, always(script{load: 100 * time.Hour}), gang(1), func(g *rig) {
		g.phase(shim.Ready)
		d := fleet.Drain{Minimum: seconds(1), Deadline: seconds(10)}
		told := stop(2, d)
		rank(1)(&told.Order)
		g.order(told)
		g.phase(shim.Draining)
		time.Sleep(time.Hour)
		if st, _ := g.h.Status(g.t.Context(), 0); st.Phase != shim.Draining {
			t.Fatalf("it ended before rank 0's door: %+v", st)
		}
		d.DoorShut = true
		told = stop(2, d) // the same order, which says more
		rank(1)(&told.Order)
		g.order(told)
		if st, at := g.phase(shim.Stopped); at != time.Hour || st.Order.N != 2 {
			t.Errorf("after %v %+v", at, st)
		}
		if _, err := g.h.Reading(g.t.Context()); !errors.Is(err, fleet.NotFound) {
			t.Errorf("a reading of a rank without a door: %v", err)
		}
	})
}

func TestStuckKeepsItsPort(t *testing.T) {
	var free chan struct{}
	inBubble(t, func(int) script {
		free = make(chan struct{}) // within the bubble
		return script{stuck: free}
	}, nil, func(g *rig) {
		_, ready := g.phase(shim.Ready)
		g.order(stop(2, fleet.Drain{}))
		st, at := g.phase(shim.Stuck)
		if !about(at-ready, 40*time.Second) || st.Order.N != 2 || g.post(0) != "shut" {
			t.Errorf("after %v: %+v", at-ready, st)
		}
		if err := g.h.Close(g.t.Context()); !errors.Is(err, fleet.Conflict) {
			t.Errorf("a stuck shim was closed: %v", err)
		}
		close(free)
		g.phase(shim.Stopped)
		if err := g.h.Close(g.t.Context()); err != nil {
			t.Error(err)
		}
		if _, err := g.h.Status(g.t.Context(), 0); !errors.Is(err, shim.ErrGone) {
			t.Errorf("after Close: %v", err)
		}
	})
}

func TestDeadShimIsContinued(t *testing.T) {
	inBubble(t, always(script{}), limits(time.Minute, 3), func(g *rig) {
		first, _ := g.phase(shim.Ready)
		waiting := make(chan error, 1)
		go func() {
			_, err := g.h.Status(context.WithoutCancel(g.t.Context()), first.Version)
			waiting <- err
		}()
		synctest.Wait()
		if err := g.h.Kill(g.t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := <-waiting; !errors.Is(err, shim.ErrGone) {
			t.Errorf("who waited for the dead shim got %v", err)
		}
		found, err := g.node.Find(g.t.Context())
		if err != nil || len(found.Live) != 0 || len(found.Dead) != 1 || found.Dead[0].Stopping {
			t.Fatalf("%+v, %v", found, err)
		}
		g.start(found.Dead[0].Again())
		if err := found.Dead[0].Forget(); err != nil {
			t.Fatal(err)
		}
		st, _ := g.phase(shim.Ready)
		if st.Shim != first.Shim+1 || st.Restarts != 1 || *st.Door != *first.Door || g.post(0) != "whole" {
			t.Errorf("before %+v, after %+v", first, st)
		}
		if found, _ := g.node.Find(g.t.Context()); len(found.Live) != 1 || len(found.Dead) != 0 {
			t.Errorf("found %+v", found)
		}
	})
}
