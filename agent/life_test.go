package agent_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"berth/agent/shim"
	"berth/fleet"
	"berth/fleet/wire"
)

func TestAReplicaFromItsOrderToItsEnd(t *testing.T) {
	inBubble(t, func(t *testing.T, g *rig) {
		g.start()
		g.order(10, run(10))
		s := g.shim()
		in := g.driver.input(0)
		if len(in.GPUs) != 1 || in.GPUs[0] != 1 || len(in.All) != 2 || in.Master != "" || in.Weights != "m" || in.Port == 0 || len(in.Ports) != 4 {
			t.Errorf("the driver was given %+v", in)
		}
		g.wantReported("starting")
		if tr := g.last(); tr.Door == nil || tr.Door.Key != "secret" || tr.Order.N != 10 || tr.Start != 1 || tr.Shim != 1 {
			t.Errorf("%+v", tr)
		}
		s.phase(shim.Ready)
		g.after(time.Second)
		g.wantReported("starting ready")

		g.order(20, stop(20))
		if o := s.taken(); len(o) != 1 || o[0].Action != wire.ActionStop || o[0].ID.N != 20 || o[0].Drain.Reason != "asked" {
			t.Fatalf("the shim was told %+v", o)
		}
		s.become(func(st *shim.Status) { st.Phase, st.Order.N = shim.Draining, 20 })
		g.after(time.Second)
		g.wantReported("starting ready")
		s.become(func(st *shim.Status) { st.Phase, st.DoorShut = shim.Stopping, true })
		g.after(time.Second)
		g.wantReported("starting ready shut")
		g.cards.set(func(c *cards) { c.busy["GPU-1"] = true })
		s.become(func(st *shim.Status) { st.Phase, st.Cut = shim.Stopped, 3 })
		g.after(10 * time.Second)
		g.wantReported("starting ready shut") // the card is not empty: nothing is released
		g.cards.set(func(c *cards) { c.busy["GPU-1"] = false })
		g.after(2 * time.Second)
		g.wantReported("starting ready shut stopped")
		if tr := g.last(); !tr.Released || tr.Order.N != 20 || tr.Cut != 3 {
			t.Errorf("%+v", tr)
		}
		if g.after(55 * time.Second); s.isClosed() {
			t.Error("the shut door does not go on refusing")
		}
		if g.after(10 * time.Second); !s.isClosed() {
			t.Error("the shim was not closed")
		}
	})
}

// TestAReplicaThatIsOrderedAgainWhileItsDoorRefuses: after a restore an order to run can come for a replica that has just ended, and then one to stop;
// that end is reported like the first one, or the replica would hold its cards for ever.
func TestAReplicaThatIsOrderedAgainWhileItsDoorRefuses(t *testing.T) {
	inBubble(t, func(t *testing.T, g *rig) {
		g.start()
		g.order(10, run(10))
		s := g.shim()
		s.phase(shim.Ready)
		g.after(time.Second)
		g.order(20, stop(20))
		s.become(func(st *shim.Status) { st.Phase, st.Order.N, st.DoorShut = shim.Stopped, 20, true })
		g.after(10 * time.Second)
		if tr := g.last(); tr.To != wire.BecameStopped || tr.Order.N != 20 {
			t.Fatalf("%+v", tr)
		}
		g.order(30, run(30))
		s.become(func(st *shim.Status) { st.Phase, st.Order.N, st.DoorShut = shim.Ready, 30, false })
		g.after(time.Second)
		g.order(40, stop(40))
		s.become(func(st *shim.Status) { st.Phase, st.Order.N, st.DoorShut = shim.Stopped, 40, true })
		g.after(5 * time.Second)
		if tr := g.last(); tr.To != wire.BecameStopped || !tr.Released || tr.Order.N != 40 {
			t.Errorf("the second end is reported as %+v", tr)
		}
		if g.after(50 * time.Second); s.isClosed() {
			t.Error("the door's minute is counted from the first end")
		}
		if g.after(20 * time.Second); !s.isClosed() {
			t.Error("the shim was not closed")
		}
	})
}

func TestTransitionsNameTheOrderThatTheyAnswer(t *testing.T) {
	inBubble(t, func(t *testing.T, g *rig) {
		g.start()
		g.order(10, run(10))
		g.shim().phase(shim.Ready)
		g.order(20, run(20)) // the shim has not taken it up yet
		if tr := g.last(); tr.To != wire.BecameReady || tr.Order.N != 10 {
			t.Errorf("%+v", tr)
		}
		g.shim().become(func(st *shim.Status) { st.Order.N = 20 })
		g.after(time.Second)
		if tr := g.last(); tr.To != wire.BecameReady || tr.Order.N != 20 {
			t.Errorf("%+v", tr)
		}
	})
}

// TestCrashLoop: restarts are counted, each exit is reported with its code and last lines, and the end of trying is failed.
func TestCrashLoop(t *testing.T) {
	inBubble(t, func(t *testing.T, g *rig) {
		g.start()
		g.order(10, run(10))
		for n := 1; n <= 2; n++ {
			g.shim().become(func(st *shim.Status) {
				st.Restarts, st.Exit = n, &fleet.Exit{Code: 1, At: fleet.TimeOf(time.Now()), Log: []string{"no such model"}}
			})
			g.after(time.Second)
			g.shim().become(func(st *shim.Status) { st.Engine++ })
			g.after(time.Second)
		}
		g.wantReported("starting exited starting exited starting")
		exit := g.peers.items()[3]
		if exit.Exit == nil || exit.Exit.Code != 1 || exit.Exit.Log[0] != "no such model" || exit.Restarts != 2 {
			t.Errorf("%+v", exit)
		}
		g.shim().become(func(st *shim.Status) { st.Phase, st.Reason = shim.Failed, "exit code 1; 2 restarts in a row" })
		g.after(time.Second)
		if tr := g.last(); tr.To != wire.BecameFailed || tr.Reason == "" || tr.Released || tr.Exit.Code != 1 {
			t.Errorf("%+v", tr)
		}
		g.order(30, stop(30)) // what the peers answer to failed
		g.shim().become(func(st *shim.Status) { st.Phase, st.Order.N, st.DoorShut = shim.Stopped, 30, true })
		g.after(time.Second)
		if tr := g.last(); tr.To != wire.BecameStopped || !tr.Released || tr.Order.N != 30 {
			t.Errorf("%+v", tr)
		}
	})
}

func TestStuckHoldsItsCards(t *testing.T) {
	inBubble(t, func(t *testing.T, g *rig) {
		g.start()
		g.order(10, run(10))
		g.order(20, stop(20))
		g.shim().become(func(st *shim.Status) { st.Phase, st.Order.N, st.Reason = shim.Stuck, 20, "pid 77 lives on" })
		g.after(time.Minute)
		if tr := g.last(); tr.To != wire.BecameFailed || tr.Released || tr.Reason != "stuck: pid 77 lives on" {
			t.Errorf("%+v", tr)
		}
		if g.cards.asked != 0 {
			t.Error("the cards were looked at while the engine lives")
		}
	})
}

func TestConditionalDrainIsWithdrawn(t *testing.T) {
	inBubble(t, func(t *testing.T, g *rig) {
		g.start()
		g.order(10, run(10))
		g.shim().phase(shim.Ready)
		g.after(time.Second)
		g.order(20, stop(20, func(o *wire.Order) { o.Drain.Mark = &fleet.Mark{Shim: 1, Engine: 1} }))
		g.shim().become(func(st *shim.Status) { st.Order.N, st.Withdrawn = 20, true })
		g.after(time.Second)
		g.wantReported("starting ready withdrawn ready")
		g.order(21, run(20)) // the order keeps its index and is one to run again
		g.shim().become(func(st *shim.Status) {
			st.Restarts, st.Exit, st.Phase = 1, &fleet.Exit{Code: 3, At: fleet.TimeOf(time.Now())}, shim.Starting
		})
		g.after(time.Second)
		g.wantReported("starting ready withdrawn ready exited starting")
	})
}

func TestWhatANodeDoesNotAllowFails(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*wire.Order)
		rig    func(*rig)
		want   string
	}{
		"flag":    {change: func(o *wire.Order) { o.Spec.Engine.Args = []string{"--load-time=1s", "--trust-remote-code"} }, want: "does not allow sim the flags --trust-remote-code"},
		"driver":  {change: func(o *wire.Order) { o.Spec.Engine.Driver = "vllm" }, want: "does not offer the engine \"vllm\""},
		"card":    {change: func(o *wire.Order) { o.Claims = []fleet.Claim{{GPU: "GPU-9"}} }, want: "GPU-9 is not in this machine"},
		"command": {rig: func(g *rig) { g.driver.err = errors.New("four cards, and a model for three") }, want: "four cards"},
		"shim":    {rig: func(g *rig) { g.maker.startErr = func(shim.Launch) error { return errors.New("no room") } }, want: "does not start: no room"},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, g *rig) {
				if c.rig != nil {
					c.rig(g)
				}
				g.start()
				o := run(10)
				if c.change != nil {
					c.change(&o)
				}
				g.order(10, o)
				g.after(time.Minute)
				g.wantReported("failed")
				if tr := g.last(); !strings.Contains(tr.Reason, c.want) || tr.Released || tr.Order.N != 10 {
					t.Errorf("%+v, want the reason %q", tr, c.want)
				}
				if n := len(g.maker.all()); n != 0 {
					t.Errorf("%d shims", n)
				}
				o.Action, o.ID.N, o.Drain = wire.ActionStop, 11, &fleet.Drain{Failed: "so it is"}
				g.order(11, o)
				g.wantReported("failed stopped")
				if tr := g.last(); !tr.Released || tr.Order.N != 11 {
					t.Errorf("%+v", tr)
				}
			})
		})
	}
}

func TestShimThatStartedAfterAllIsKept(t *testing.T) {
	inBubble(t, func(t *testing.T, g *rig) {
		g.start()
		g.maker.startErr = func(l shim.Launch) error {
			g.maker.startErr = func(shim.Launch) error { return nil }
			g.maker.mu.Unlock()
			defer g.maker.mu.Lock()
			_, _ = g.maker.Start(t.Context(), l)
			return errors.New("its answer was lost")
		}
		g.order(10, run(10))
		g.wantReported("starting")
		g.shim().phase(shim.Ready)
		g.after(time.Second)
		g.wantReported("starting ready")
	})
}

// TestStoppedAnswersTheNewestOrder: a shim that stopped by an order before the newest may be about to do something else.
func TestStoppedAnswersTheNewestOrder(t *testing.T) {
	inBubble(t, func(t *testing.T, g *rig) {
		g.start()
		g.order(10, run(10))
		g.cards.set(func(c *cards) { c.busy["GPU-1"] = true })
		g.order(20, stop(20))
		g.shim().become(func(st *shim.Status) { st.Phase, st.Order.N = shim.Stopped, 20 })
		g.order(30, stop(30))
		g.cards.set(func(c *cards) { c.busy["GPU-1"] = false })
		g.after(time.Minute)
		g.wantReported("starting")
		g.shim().become(func(st *shim.Status) { st.Order.N = 30 })
		g.after(2 * time.Second)
		g.wantReported("starting stopped")
	})
}
