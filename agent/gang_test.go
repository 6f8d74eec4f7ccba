package agent_test

import (
	"testing"
	"time"

	"berth/agent/shim"
	"berth/fleet"
	"berth/fleet/wire"
)

func TestRankZeroSaysWhereToMeet(t *testing.T) {
	inBubble(t, func(t *testing.T, g *rig) {
		g.start()
		g.order(10, run(10, rank(0, "", 1)))
		in := g.driver.input(0)
		tr := g.last()
		if in.Master == "" || tr.To != wire.BecameStarting || tr.Master != in.Master || len(in.Hosts) != 2 || in.Hosts[1] != "192.0.2.18" {
			t.Fatalf("input %+v, reported %+v", in, tr)
		}
		g.order(11, run(10, rank(0, in.Master, 1))) // the state knows it now; nothing new for this shim
		if n := len(g.shim().taken()); n != 0 {
			t.Errorf("%d orders to the shim that started the same", n)
		}

		g.shim().become(func(st *shim.Status) {
			st.Phase, st.Exit = shim.Exited, &fleet.Exit{Code: -1, Signal: "SIGKILL", At: fleet.TimeOf(time.Now())}
		})
		g.after(time.Minute)
		g.wantReported("starting exited")
		if len(g.shim().taken()) != 0 {
			t.Error("a gang's rank was started without a new start number")
		}
		g.order(20, run(20, rank(0, "", 2)))
		o := g.shim().taken()
		if len(o) != 1 || o[0].Program == nil || o[0].Start != 2 || o[0].Program.Master == "" || o[0].Program.Master == in.Master {
			t.Fatalf("the shim was told %+v; the first master was %s", o, in.Master)
		}
		g.shim().become(func(st *shim.Status) {
			st.Phase, st.Order.N, st.Start, st.Engine, st.Master = shim.Starting, 20, 2, 2, o[0].Program.Master
		})
		g.after(time.Second)
		if tr := g.last(); tr.To != wire.BecameStarting || tr.Master != o[0].Program.Master || tr.Start != 2 || tr.Order.N != 20 {
			t.Errorf("%+v", tr)
		}
	})
}

func TestOtherRanksWaitForTheMaster(t *testing.T) {
	inBubble(t, func(t *testing.T, g *rig) {
		g.start()
		g.order(10, run(10, rank(1, "", 1)))
		g.after(time.Minute)
		if n := len(g.maker.all()); n != 0 {
			t.Fatalf("%d shims before it is known where to meet", n)
		}
		g.order(11, run(10, rank(1, "192.0.2.17:20019", 1))) // the same order says more now
		in := g.driver.input(0)
		if in.Master != "192.0.2.17:20019" || g.shim().launch.Program.Engine != "" {
			t.Errorf("%+v", in)
		}
		if tr := g.last(); tr.To != wire.BecameStarting || tr.Rank != 1 || tr.Door != nil || tr.Master != "" {
			t.Errorf("%+v", tr)
		}
		g.shim().phase(shim.Ready)
		g.after(time.Second)
		g.wantReported("starting") // ready is rank 0's to say

		g.order(20, run(20, rank(1, "", 2)))
		if len(g.shim().taken()) != 0 {
			t.Error("the new start was ordered before it is known where to meet")
		}
		g.order(21, run(20, rank(1, "192.0.2.17:20018", 2)))
		if o := g.shim().taken(); len(o) != 1 || o[0].Program == nil || g.driver.input(1).Master != "192.0.2.17:20018" {
			t.Errorf("told %+v", o)
		}
	})
}

// TestOtherRanksStopAfterTheDoor: rank 1 is told of the stop at once, and once more when rank 0 is shut; its shim, which knows the rule, ends the
// engine then.
func TestOtherRanksStopAfterTheDoor(t *testing.T) {
	inBubble(t, func(t *testing.T, g *rig) {
		g.start()
		g.order(10, run(10, rank(1, "192.0.2.17:20019", 1)))
		g.order(20, stop(20, rank(1, "192.0.2.17:20019", 1)))
		g.shim().become(func(st *shim.Status) { st.Phase, st.Order.N = shim.Draining, 20 })
		g.after(time.Hour) // no deadline of this node's clock
		g.wantReported("starting")
		if o := g.shim().taken(); len(o) != 1 || o[0].Drain.DoorShut {
			t.Fatalf("told %+v", o)
		}
		g.order(21, stop(20, rank(1, "192.0.2.17:20019", 1), func(o *wire.Order) { o.Drain.DoorShut = true }))
		if o := g.shim().taken(); len(o) != 2 || !o[1].Drain.DoorShut {
			t.Fatalf("told %+v", o)
		}
		g.shim().become(func(st *shim.Status) { st.Phase, st.DoorShut = shim.Stopped, true })
		g.after(time.Second)
		g.wantReported("starting stopped")
	})
}

func TestDeadShimOfAGangIsAnExit(t *testing.T) {
	inBubble(t, func(t *testing.T, g *rig) {
		g.start()
		g.order(10, run(10, rank(0, "", 1)))
		g.shim().die()
		g.after(time.Minute)
		g.wantReported("starting exited")
		if len(g.maker.all()) != 1 {
			t.Fatal("a gang's rank was started alone")
		}
		g.order(20, run(20, rank(0, "", 2)))
		s := g.shim()
		if s.launch.Order.Start != 2 || s.launch.Door == nil || s.launch.Restarts != 0 {
			t.Errorf("%+v", s.launch)
		}
		g.wantReported("starting exited starting")
	})
}
