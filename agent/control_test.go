package agent_test

import (
	"errors"
	"testing"
	"time"

	"berth/agent/shim"
	"berth/fleet"
	"berth/fleet/wire"
)

// TestOlderOrdersAreIgnored: a peer that lags behind answers with an older list, or an empty one; nothing is stopped, and the log says so.
func TestOlderOrdersAreIgnored(t *testing.T) {
	inBubble(t, func(t *testing.T, g *rig) {
		g.start()
		g.order(50, run(50))
		g.order(10)
		g.after(time.Minute)
		g.order(40, stop(40))
		g.after(time.Minute)
		if o := g.shim().stops(); len(o) != 0 {
			t.Errorf("an older list was followed: %+v", o)
		}
		if g.log.count("they are ignored") == 0 {
			t.Error("no log line")
		}
		g.stop()
		g.start() // the newest index is on disk
		g.after(time.Minute)
		if o := g.shim().stops(); len(o) != 0 {
			t.Errorf("after a restart an older list was followed: %+v", o)
		}
		g.peers.order(fleet.Index{Epoch: 2, N: 1}, stop(1, func(o *wire.Order) { o.ID.Epoch = 2 })) // a restore: epochs come first
		g.after(30 * time.Second)
		if o := g.shim().stops(); len(o) != 1 {
			t.Errorf("the order of a newer epoch is not followed: %+v", o)
		}
	})
}

func TestOlderRowsAndStrangeListsAreIgnored(t *testing.T) {
	inBubble(t, func(t *testing.T, g *rig) {
		g.start()
		g.order(50, run(50))
		g.order(60, stop(40)) // a newer list with an older order in it
		if o := g.shim().stops(); len(o) != 0 {
			t.Errorf("an older order was followed: %+v", o)
		}
		g.peers.set(func(p *peers) {
			p.orders.Node, p.orders.Index.N, p.orders.Orders = "gpu-018", 70, []wire.Order{stop(70)}
		})
		g.after(time.Minute)
		if o := g.shim().stops(); len(o) != 0 {
			t.Errorf("the order of another node was followed: %+v", o)
		}
	})
}

func TestAMissingRowIsNoOrder(t *testing.T) {
	inBubble(t, func(t *testing.T, g *rig) {
		g.start()
		g.order(10, run(10))
		g.shim().phase(shim.Ready)
		g.order(20)
		g.after(10 * time.Minute)
		g.stop()
		g.start()
		g.after(10 * time.Minute)
		if s := g.shim(); len(s.stops()) != 0 || s.status.Phase != shim.Ready {
			t.Errorf("told %+v", s.taken())
		}
		g.shim().die() // even its restart goes on: nobody has ordered it to stop
		g.after(10 * time.Minute)
		if regs := g.peers.registrations(); len(regs[len(regs)-1].Running) != 1 {
			t.Error("it was not registered as running")
		}
	})
}

func TestAnotherClusterIsRefused(t *testing.T) {
	inBubble(t, func(t *testing.T, g *rig) {
		g.start()
		g.order(10, run(10))
		g.peers.set(func(p *peers) {
			p.cluster, p.orders.Cluster, p.answer.Cluster = "c-2", "c-2", "c-2"
			p.orders.Index.N, p.orders.Orders = 99, []wire.Order{stop(99)}
		})
		g.after(time.Minute)
		if o := g.shim().stops(); len(o) != 0 {
			t.Errorf("another cluster's order was followed: %+v", o)
		}
		g.stop()
		g.start()
		g.after(time.Minute)
		if g.log.count("this node belongs to the cluster c-1; a peer of c-2 answered") == 0 || g.log.count("this node is not registered") == 0 {
			t.Error("no clear log line")
		}
	})
}

// TestStampComesBeforeTheDoors: a reading carries the stamp that was noted before the door was asked, never one that came in the meantime.
func TestStampComesBeforeTheDoors(t *testing.T) {
	inBubble(t, func(t *testing.T, g *rig) {
		g.start()
		g.order(10, run(10))
		first := g.shim().number
		s := g.shim()
		s.mu.Lock()
		s.asked = func() { // while the door is asked, the leader's clock goes on
			g.peers.mu.Lock()
			defer g.peers.mu.Unlock()
			s := *g.peers.answer.Stamp
			s.Clock++
			g.peers.answer.Stamp = &s
		}
		s.mu.Unlock()
		g.after(10 * time.Second)
		clock := int64(-1)
		for _, h := range g.peers.heartbeats() {
			if len(h.Readings) == 0 || h.Readings[0].Number <= first {
				continue
			}
			r := h.Readings[0]
			if r.Replica != replica || r.Shim != 1 {
				t.Fatalf("%+v", r)
			}
			if r.Stamp == nil || clock >= 0 && r.Stamp.Clock != clock+1 {
				t.Fatalf("reading %d has the stamp %+v after clock %d", r.Number, r.Stamp, clock)
			}
			clock = r.Stamp.Clock
		}
		g.peers.mu.Lock()
		defer g.peers.mu.Unlock()
		if now := g.peers.answer.Stamp.Clock; clock < 5 || clock != now-1 {
			t.Errorf("the last reading has clock %d; the leader's was %d once the door was asked", clock, now)
		}
	})
}

func TestStampsOfOlderTermsAreNotNoted(t *testing.T) {
	inBubble(t, func(t *testing.T, g *rig) {
		g.start()
		g.order(10, run(10))
		for _, s := range []wire.Stamp{{Term: 3, Clock: 5}, {Term: 2, Clock: 99}, {Term: 3, Clock: 4}} {
			g.peers.set(func(p *peers) { p.answer.Stamp = &s })
			g.after(3 * time.Second)
		}
		beats := g.peers.heartbeats()
		if s := beats[len(beats)-1].Readings[0].Stamp; s.Term != 3 || s.Clock != 5 {
			t.Errorf("%+v", s)
		}
	})
}

// TestHeartbeatWaitsForNothing: neither a hung driver nor a hung door delays it; the door is left out.
func TestHeartbeatWaitsForNothing(t *testing.T) {
	inBubble(t, func(t *testing.T, g *rig) {
		g.start()
		g.order(10, run(10))
		hang := make(chan struct{})
		defer close(hang)
		g.cards.set(func(c *cards) { c.hang = hang })
		g.after(20 * time.Second)
		before := len(g.peers.heartbeats())
		g.after(10 * time.Second)
		if n := len(g.peers.heartbeats()) - before; n != 10 {
			t.Errorf("%d heartbeats in 10 s under a hung driver", n)
		}
		beats := g.peers.heartbeats()
		if h := beats[len(beats)-1]; len(h.Readings) != 1 || len(h.GPUs) != 0 || h.Orders != "1.10" {
			t.Errorf("%+v", h)
		}
		s := g.shim()
		s.mu.Lock()
		s.slow = hang
		s.mu.Unlock()
		before = len(g.peers.heartbeats())
		g.after(10 * time.Second)
		beats = g.peers.heartbeats()
		if n := len(beats) - before; n < 9 || len(beats[len(beats)-1].Readings) != 0 {
			t.Errorf("%d heartbeats in 10 s under a hung door, the last with %d readings", n, len(beats[len(beats)-1].Readings))
		}
		if g.shim().number > uint64(before)+1 {
			t.Error("a door that owes an answer is asked again and again")
		}
	})
}

func TestHeartbeatFollowsTheAnswer(t *testing.T) {
	inBubble(t, func(t *testing.T, g *rig) {
		g.start()
		g.peers.set(func(p *peers) {
			p.answer.Interval, p.answer.Register, p.answer.PeerHTTP = fleet.Duration(5*time.Second), true, []string{"192.0.2.1:7300", "192.0.2.2:7300"}
		})
		g.after(2 * time.Second)
		before := len(g.peers.heartbeats())
		g.after(50 * time.Second)
		if n := len(g.peers.heartbeats()) - before; n != 10 {
			t.Errorf("%d heartbeats in 50 s, want one each 5 s", n)
		}
		if n := len(g.peers.registrations()); n != 2 {
			t.Errorf("registered %d times, want again when asked", n)
		}
		if len(g.peers.addrs) != 2 {
			t.Errorf("the peers' addresses are %v", g.peers.addrs)
		}
	})
}

// TestTransitionsAreKeptUntilAnswered: what could not be reported is sent again, in order and in one batch; what was refused is not.
func TestTransitionsAreKeptUntilAnswered(t *testing.T) {
	inBubble(t, func(t *testing.T, g *rig) {
		g.start()
		g.peers.set(func(p *peers) { p.batchErr = errDown })
		g.order(10, run(10))
		g.shim().phase(shim.Ready)
		g.after(5 * time.Minute)
		g.wantReported("")
		g.peers.set(func(p *peers) { p.batchErr, p.refuse["starting"] = nil, "too late" })
		g.after(time.Minute)
		g.wantReported("starting ready")
		if n := len(g.peers.batches); n != 1 || g.peers.batches[0].Instance != 1 {
			t.Errorf("%d batches", n)
		}
		if g.log.count("too late") != 1 {
			t.Errorf("a refusal is logged %d times", g.log.count("too late"))
		}
	})
}

// A batch that no peer takes does not take others' reports with it: what is wrong with it is found, and dropped alone.
func TestOneTransitionThatIsNotTakenIsDroppedAlone(t *testing.T) {
	inBubble(t, func(t *testing.T, g *rig) {
		g.start()
		g.peers.set(func(p *peers) { p.batchErr, p.poison = errDown, "ready" })
		g.order(10, run(10))
		g.shim().phase(shim.Ready)
		g.after(time.Second)
		g.order(20, stop(20))
		g.shim().become(func(st *shim.Status) { st.Phase, st.Order.N, st.DoorShut = shim.Stopped, 20, true })
		g.after(time.Second)
		g.peers.set(func(p *peers) { p.batchErr = nil })
		g.after(time.Minute)
		g.wantReported("starting shut stopped")
		if n := g.log.count("is dropped"); n != 1 {
			t.Errorf("%d transitions were dropped", n)
		}
	})
}

func TestUnknownInstanceRegistersAgain(t *testing.T) {
	inBubble(t, func(t *testing.T, g *rig) {
		g.start()
		g.peers.set(func(p *peers) { p.batchErr = fleet.Errorf(fleet.StaleEpoch, "instance 0 is registered") })
		g.order(10, run(10))
		g.after(time.Second)
		if n := len(g.peers.registrations()); n < 2 {
			t.Errorf("registered %d times", n)
		}
		g.peers.set(func(p *peers) { p.batchErr = nil })
		g.after(time.Minute)
		g.wantReported("starting")
	})
}

func TestRegistersWhatChanges(t *testing.T) {
	inBubble(t, func(t *testing.T, g *rig) {
		g.start()
		g.after(10 * time.Minute)
		if n := len(g.peers.registrations()); n != 1 {
			t.Fatalf("registered %d times with nothing new", n)
		}
		first := g.peers.registrations()[0]
		if first.Name != node || first.Address == "" || first.EngineAddress != host || len(first.Inventory.GPUs) != 2 || len(first.Engines) != 1 ||
			first.Engines[0].AllowArgs[0] != "--load-time" || !first.Engines[0].SpanNodes {
			t.Errorf("%+v", first)
		}
		g.maker.mu.Lock()
		g.maker.unmanaged = []fleet.Unmanaged{{What: "shim 9, whose folder is lost", PID: 77}}
		g.maker.mu.Unlock()
		g.after(time.Minute)
		regs := g.peers.registrations()
		if len(regs) != 2 || len(regs[1].Unmanaged) != 1 {
			t.Errorf("registered %d times", len(regs))
		}
	})
}

// TestSickCards: a card goes when it is sick, a restart of the agent does not make it well, and a positive check does.
func TestSickCards(t *testing.T) {
	inBubble(t, func(t *testing.T, g *rig) {
		health := func() fleet.GPU {
			regs := g.peers.registrations()
			return regs[len(regs)-1].Inventory.GPUs[0]
		}
		sick := func(h fleet.Health, why string) {
			g.cards.set(func(c *cards) { c.inv.GPUs[0].Health, c.inv.GPUs[0].Reason = h, why })
			g.after(11 * time.Second)
		}
		g.start()
		sick(fleet.Unhealthy, "XID 94")
		if h := health(); h.Health != fleet.Unhealthy || h.Reason != "XID 94" {
			t.Errorf("%+v", h)
		}
		g.stop()
		sick(fleet.HealthUnknown, "")
		g.start()
		g.after(time.Minute)
		if h := health(); h.Health != fleet.Unhealthy || h.Reason != "XID 94" {
			t.Errorf("a restart of the agent made it %+v", h)
		}
		g.cards.set(func(c *cards) { c.err = errors.New("the driver does not load") })
		g.after(time.Minute)
		regs := g.peers.registrations()
		if all := regs[len(regs)-1].Inventory.GPUs; len(all) != 2 || all[0].Health != fleet.Unhealthy || all[1].Health != fleet.HealthUnknown {
			t.Errorf("unmeasured: %+v", all)
		}
		g.cards.set(func(c *cards) { c.err = nil })
		sick(fleet.Healthy, "")
		if h := health(); h.Health != fleet.Healthy {
			t.Errorf("after a positive check: %+v", h)
		}
	})
}
