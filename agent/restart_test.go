package agent_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"berth/agent"
	"berth/agent/shim"
	"berth/fleet"
	"berth/fleet/wire"
)

// TestRestartFindsItsShims: an agent that comes back adopts what runs, registers it before anything else, flaps nothing, and a later stop really
// ends it.
func TestRestartFindsItsShims(t *testing.T) {
	inBubble(t, func(t *testing.T, g *rig) {
		g.start()
		g.order(10, run(10))
		g.shim().phase(shim.Ready)
		g.after(time.Second)
		g.stop()
		if g.shim().status.Phase != shim.Ready || len(g.shim().taken()) != 0 {
			t.Fatal("the end of the agent touched its shim")
		}
		g.after(time.Hour)
		g.start()
		g.after(time.Second)
		regs := g.peers.registrations()
		if len(regs) != 2 || regs[1].ID != regs[0].ID || regs[1].Instance != 2 || regs[1].Cluster != "c-1" || len(regs[1].Running) != 1 {
			t.Fatalf("registered %+v", regs)
		}
		if r := regs[1].Running[0]; !r.Ready || r.Replica != replica || r.Shim != 1 || r.Door == nil || r.Order.N != 10 || len(r.Claims) != 1 {
			t.Errorf("%+v", r)
		}
		g.wantReported("starting ready ready") // never "starting" for what serves
		if len(g.maker.all()) != 1 {
			t.Error("a second shim")
		}
		g.order(20, stop(20))
		g.shim().become(func(st *shim.Status) { st.Phase, st.Order.N, st.DoorShut = shim.Stopped, 20, true })
		g.after(time.Second)
		if tr := g.last(); tr.To != wire.BecameStopped || !tr.Released {
			t.Errorf("%+v", tr)
		}
		if g.after(time.Minute); len(g.maker.live()) != 0 {
			t.Errorf("%d live shims", len(g.maker.live()))
		}
	})
}

func TestDeadShimFoundIsStartedAgain(t *testing.T) {
	inBubble(t, func(t *testing.T, g *rig) {
		g.start()
		g.order(10, run(10))
		g.shim().phase(shim.Ready)
		g.after(time.Second)
		g.stop()
		door := *g.shim().status.Door
		g.shim().die()
		g.start()
		g.after(time.Second)
		s := g.shim()
		if s.launch.Shim != 2 || s.launch.Door == nil || *s.launch.Door != door || s.launch.Restarts != 1 || !g.maker.all()[0].forgotten {
			t.Errorf("%+v", s.launch)
		}
		if tr := g.last(); tr.To != wire.BecameStarting || tr.Restarts != 1 || tr.Exit == nil {
			t.Errorf("%+v", tr)
		}
	})
}

func TestDeadShimIsStartedAgainAtOnce(t *testing.T) {
	inBubble(t, func(t *testing.T, g *rig) {
		g.start()
		g.order(10, run(10))
		g.shim().die()
		g.after(time.Second)
		if g.shim().launch.Restarts != 1 {
			t.Errorf("%+v", g.shim().launch)
		}
	})
}

func TestDeadShimThatWasToStop(t *testing.T) {
	inBubble(t, func(t *testing.T, g *rig) {
		g.start()
		g.order(10, run(10))
		g.order(20, stop(20))
		g.shim().die()
		g.after(time.Second)
		g.wantReported("starting stopped")
		if len(g.maker.all()) != 1 || !g.maker.all()[0].forgotten {
			t.Error("started again, or its folder is kept")
		}
	})
}

func TestDeadStuckShimStaysClaimed(t *testing.T) {
	inBubble(t, func(t *testing.T, g *rig) {
		g.start()
		g.order(10, run(10))
		s := g.shim()
		s.stuck = true
		s.die()
		g.after(time.Second)
		if tr := g.last(); tr.To != wire.BecameFailed || tr.Released || len(g.maker.live()) != 0 {
			t.Fatalf("%+v", tr)
		}
		g.order(20, stop(20))
		g.after(time.Minute)
		if tr := g.last(); tr.To != wire.BecameFailed || tr.Released {
			t.Fatalf("%+v", tr)
		}
		s.mu.Lock()
		s.stuck = false
		s.mu.Unlock()
		g.after(time.Minute)
		if tr := g.last(); tr.To != wire.BecameStopped || !tr.Released {
			t.Errorf("%+v", tr)
		}
	})
}

// TestWithoutPeers: single-node replicas whose last order was to run are started from disk after 60 s of silence, with the door they had; a gang
// is not, nor one that was to stop.
func TestWithoutPeers(t *testing.T) {
	inBubble(t, func(t *testing.T, g *rig) {
		named := func(id string) func(*wire.Order) { return func(o *wire.Order) { o.Replica = id } }
		g.start()
		g.order(10, run(10), run(10, named("r-1.10.2"), rank(0, "", 1)), run(10, named("r-1.10.3")))
		g.order(20, run(10), run(10, named("r-1.10.2"), rank(0, "", 1)), stop(20, named("r-1.10.3")))
		g.stop()
		door := *g.maker.all()[0].status.Door
		for _, s := range g.maker.all() { // the machine was off; not even the shims' folders are left
			s.die()
			s.forgotten = true
		}
		g.peers.set(func(p *peers) { p.err = errDown })
		g.start()
		g.after(59 * time.Second)
		if n := len(g.maker.live()); n != 0 {
			t.Fatalf("%d shims were started without asking", n)
		}
		g.after(3 * time.Second)
		s := g.shim()
		if s.launch.Order.Replica != replica || s.launch.Door == nil || *s.launch.Door != door {
			t.Errorf("%+v", s.launch)
		}
		g.after(10 * time.Minute)
		if n := len(g.maker.live()); n != 1 {
			t.Errorf("%d shims", n)
		}
	})
}

// TestAskFirst: while a peer with a leader answers, an order from disk starts nothing by itself.
func TestAskFirst(t *testing.T) {
	inBubble(t, func(t *testing.T, g *rig) {
		g.start()
		g.order(10, run(10))
		g.stop()
		g.shim().die()
		g.peers.set(func(p *peers) { p.regErr = errors.New("a slow leader") }) // heartbeats are answered; orders not yet to be had
		g.start()
		g.after(5 * time.Minute)
		if len(g.maker.live()) != 0 {
			t.Fatal("started without asking")
		}
		g.peers.set(func(p *peers) { p.regErr = nil })
		g.order(20, stop(20))
		g.after(time.Minute)
		if tr := g.last(); tr.To != wire.BecameStopped || len(g.maker.live()) != 0 {
			t.Errorf("%+v", tr)
		}
	})
}

// TestPeersWithoutALeaderAreNone: orders cannot be had from them, so that waiting for them has an end.
func TestPeersWithoutALeaderAreNone(t *testing.T) {
	inBubble(t, func(t *testing.T, g *rig) {
		g.start()
		g.order(10, run(10))
		g.stop()
		g.shim().die()
		g.peers.set(func(p *peers) { p.regErr, p.answer.Stamp = fleet.Errorf(fleet.NoLeader, "there is no leader"), nil })
		g.start()
		g.after(55 * time.Second)
		if len(g.maker.live()) != 0 {
			t.Fatal("started without asking")
		}
		g.after(7 * time.Second)
		if g.shim().launch.Restarts != 1 {
			t.Errorf("%+v", g.shim().launch)
		}
	})
}

// TestEndedShimsAreNotRunning: a gang's rank that has exited is there, but nothing of its engine is.
func TestEndedShimsAreNotRunning(t *testing.T) {
	inBubble(t, func(t *testing.T, g *rig) {
		g.start()
		g.order(10, run(10, rank(0, "", 1)))
		g.shim().phase(shim.Exited)
		g.stop()
		g.start()
		g.after(time.Second)
		regs := g.peers.registrations()
		if r := regs[len(regs)-1]; len(r.Running) != 0 {
			t.Errorf("registered as running: %+v", r.Running)
		}
		if tr := g.last(); tr.To != wire.BecameExited {
			t.Errorf("%+v", tr)
		}
	})
}

func TestDoorThatIsTakenIsReplaced(t *testing.T) {
	inBubble(t, func(t *testing.T, g *rig) {
		g.start()
		g.order(10, run(10))
		g.maker.mu.Lock()
		g.maker.startErr = func(l shim.Launch) error {
			if l.Door != nil {
				return errors.New("address already in use")
			}
			return nil
		}
		g.maker.mu.Unlock()
		g.shim().die()
		g.after(time.Second)
		if l := g.shim().launch; l.Door != nil || l.Restarts != 1 {
			t.Errorf("%+v", l)
		}
		if tr := g.last(); tr.To != wire.BecameStarting || tr.Door == nil {
			t.Errorf("%+v", tr)
		}
	})
}

// TestFolderOfAShimThatWasReplaced: the agent ended between the start of the new shim and the end of the old one's folder.
func TestFolderOfAShimThatWasReplaced(t *testing.T) {
	inBubble(t, func(t *testing.T, g *rig) {
		g.start()
		g.order(10, run(10))
		g.shim().die()
		g.after(time.Second)
		g.stop()
		old := g.maker.all()[0]
		old.forgotten = false
		g.start()
		g.after(time.Minute)
		if !old.forgotten || len(g.maker.all()) != 2 || len(g.maker.live()) != 1 {
			t.Errorf("the old folder is gone: %v; %d shims, %d live", old.forgotten, len(g.maker.all()), len(g.maker.live()))
		}
	})
}

func TestStopEnginesOnExit(t *testing.T) {
	inBubble(t, func(t *testing.T, g *rig) {
		g.adjust = func(c *agent.Config) { c.StopEnginesOnExit = true }
		g.start()
		g.order(10, run(10))
		s := g.shim()
		g.cancel()
		time.Sleep(time.Second)
		o := s.taken()
		if len(o) != 1 || o[0].Action != wire.ActionStop || !(fleet.Index{Epoch: 1, N: 10}).Before(o[0].ID) {
			t.Fatalf("told %+v", o)
		}
		s.phase(shim.Stopped)
		g.stop()
		if !s.isClosed() {
			t.Error("the shim is left")
		}
	})
}

func TestStopEnginesOnExitKillsWhatDoesNotEnd(t *testing.T) {
	inBubble(t, func(t *testing.T, g *rig) {
		g.adjust = func(c *agent.Config) { c.StopEnginesOnExit = true }
		g.start()
		g.order(10, run(10))
		began := time.Now()
		g.stop()
		if took := time.Since(began); len(g.maker.live()) != 0 || took < 10*time.Second || took > 2*time.Minute {
			t.Errorf("%d shims after %v", len(g.maker.live()), took)
		}
	})
}

func TestOneAgentADirectory(t *testing.T) {
	inBubble(t, func(t *testing.T, g *rig) {
		g.start()
		second, err := agent.New(g.config())
		if err != nil {
			t.Fatal(err)
		}
		if err := second.Run(t.Context()); err == nil {
			t.Error("a second agent runs on the same directory")
		}
	})
}

// A shim that nobody can manage holds its cards: a shard that claims one of them is refused instead of being started beside it.
func TestACardThatAStrangerHoldsIsLeftToIt(t *testing.T) {
	inBubble(t, func(t *testing.T, g *rig) {
		g.maker.unmanaged = []fleet.Unmanaged{{What: "shim whose folder is lost", PID: 77, GPUs: []string{"GPU-7", run(10).Claims[0].GPU}}}
		g.start()
		g.order(10, run(10))
		g.after(time.Second)
		if tr := g.last(); tr.To != wire.BecameFailed || !strings.Contains(tr.Reason, "process 77") || len(g.maker.all()) != 0 {
			t.Fatalf("%+v; %d shims", tr, len(g.maker.all()))
		}
		g.maker.mu.Lock()
		g.maker.unmanaged = nil
		g.maker.mu.Unlock()
		g.after(11 * time.Second)
		g.order(20, run(20))
		if g.after(time.Second); len(g.maker.live()) != 1 {
			t.Error("not started when the card was free again")
		}
	})
}
