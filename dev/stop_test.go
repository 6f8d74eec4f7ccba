package dev

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"berth/agent/engine/sim"
	"berth/fleet"
	"berth/fleet/wire"
)

// small is a cluster that is quick to step through: one peer, one node, two routers, and a network on which every message takes a while, so that the
// steps of a stop lie apart.
func small(l *loads) func(*Config) {
	return func(c *Config) {
		c.Peers, c.Nodes, c.Routers = 1, 1, 2
		l.watch(c)
	}
}

// requestID marks a request, so that the engines' records tell what became of it.
func requestID(kind string, n int) string { return fmt.Sprintf("req-%s-%d", kind, n) }

// outcomes gives what became of a request at all engines together.
func (l *loads) outcomes(id string) (served, other int, replica string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for r, engines := range l.engines {
		for _, e := range engines {
			for _, rec := range e.Requests() {
				switch {
				case rec.RequestID != id:
				case rec.Outcome == sim.Served:
					served, replica = served+1, r
				default:
					other++
				}
			}
		}
	}
	return served, other, replica
}

// door gives the address and the key of a model's only replica, as routers know them.
func (b *bubble) door(model string) (wire.Endpoint, bool) {
	b.t.Helper()
	table, err := b.ctl.Table(context.Background(), fleet.Index{}, 0)
	if err != nil {
		b.t.Fatal(err)
	}
	for _, m := range table.Models {
		if m.Name == model && len(m.Endpoints) > 0 {
			return m.Endpoints[0], true
		}
	}
	return wire.Endpoint{}, false
}

// TestARequestAtEachStepOfAnUnload injects one request at each step of a conditional drain, through a router and at the door itself. Through the
// router it is served whole, once; at the door it is served whole or refused before anything was done; and a replica that served it stays.
func TestARequestAtEachStepOfAnUnload(t *testing.T) {
	var l loads
	inBubble(t, small(&l), func(b *bubble) {
		b.net.SetLatency(3 * time.Millisecond)
		b.nodes(1)
		spec := sleeper("m", 1)
		spec.Engine.Args = []string{"--load-time=1s", "--tokens-per-second=100"}
		spec.Idle = fleet.IdleSpec{UnloadAfter: fleet.Duration(8 * time.Second)}
		b.applySpec(spec)
		stayed, back, gone, refused := 0, 0, 0, 0
		for step := range 45 {
			b.unfrozen(func() { b.ask(0, "m", 1) })
			time.Sleep(20 * time.Second) // due, and only the freeze keeps it
			e, ok := b.door("m")
			if !ok {
				t.Fatalf("step %d: the replica is gone under a freeze", step)
			}
			thawed := make(chan struct{})
			go func() { defer close(thawed); b.thaw() }()
			at := time.Duration(step) * time.Millisecond // the planner collects changes for 20 ms
			time.Sleep(at)
			id, direct := requestID("unload", step), step%3 == 2
			status, body := 0, ""
			if direct {
				status, body = b.post("http://"+e.Address+"/v1/chat/completions", map[string]string{wire.HeaderReplicaKey: e.Key, "X-Request-Id": id}, "m", 5)
			} else {
				status, body = b.post(b.RouterURLs()[step%2]+"/chat/completions", map[string]string{"X-Request-Id": id}, "m", 5)
			}
			<-thawed
			served, other, by := l.outcomes(id)
			switch {
			case direct && status == http.StatusServiceUnavailable && served+other == 0:
				refused++
			case status != http.StatusOK || served != 1 || other != 0:
				t.Errorf("%s after the thaw (at the door: %v): %d %s; served %d times, begun and not served %d times", at, direct, status, body, served, other)
			case by == e.Replica:
				stayed++
				time.Sleep(5 * time.Second)
				if r, ok := b.replicaOf("m"); !ok || r.ID != by || r.State != fleet.Ready {
					t.Errorf("%s after the thaw %s served a request; now there is %s, %s", at, by, r.ID, r.State)
				} else if r.Reason == "asked for again" {
					back++
				}
			default:
				gone++
			}
			b.freeze()
		}
		t.Logf("stayed %d, of them %d after the order to stop; unloaded before the request %d, refused at the door %d", stayed, back, gone, refused)
		if stayed == 0 || back == 0 || gone == 0 || refused == 0 {
			t.Error("the requests did not come before and after the door had shut")
		}
	})
}

func (b *bubble) freeze() {
	b.t.Helper()
	if err := b.ctl.Freeze(context.Background(), "a test"); err != nil {
		b.t.Fatal(err)
	}
}

func (b *bubble) thaw() {
	if err := b.ctl.Thaw(context.Background()); err != nil {
		b.t.Error(err)
	}
}

// unfrozen does something in an unfrozen fleet and freezes it again.
func (b *bubble) unfrozen(do func()) {
	b.t.Helper()
	b.thaw()
	do()
	b.freeze()
}

// TestARequestAtEachStepOfAStop: one of two replicas is ordered to stop while requests that take half a second come at every step of it. Each is
// served whole, once.
func TestARequestAtEachStepOfAStop(t *testing.T) {
	var l loads
	inBubble(t, small(&l), func(b *bubble) {
		b.net.SetLatency(2 * time.Millisecond)
		b.nodes(1)
		spec := sleeper("m", 1)
		spec.Engine.Args = []string{"--load-time=1s", "--tokens-per-second=20"}
		spec.Replicas = fleet.ReplicaCount{Min: 2, Max: 2}
		spec.Idle.UnloadAfter = 0
		b.applySpec(spec)
		n := 0
		for round := range 3 {
			b.eventually("two replicas are ready", func() bool { return b.status().Replicas.Ready == 2 })
			victim := b.replicas()[0].ID
			var all sync.WaitGroup
			for i := range 120 { // 5 ms apart around the order, then around the end of drain.minimum, 1 s
				at := time.Duration(5*i+round) * time.Millisecond
				if i >= 60 {
					at += 700 * time.Millisecond
				}
				id := requestID("stop", n)
				n++
				all.Go(func() {
					time.Sleep(at)
					status, body := b.post(b.RouterURLs()[i%2]+"/chat/completions", map[string]string{"X-Request-Id": id}, "m", 10)
					if served, other, _ := l.outcomes(id); status != http.StatusOK || served != 1 || other != 0 {
						t.Errorf("round %d, %s after: %d %s; served %d times, begun and not served %d times", round, at, status, body, served, other)
					}
				})
			}
			time.Sleep(20 * time.Millisecond)
			if err := b.ctl.ReplicaDo(context.Background(), victim, "stop", "a test"); err != nil {
				t.Fatal(err)
			}
			all.Wait()
			b.eventually("the stopped replica is gone", func() bool {
				for _, r := range b.replicas() {
					if r.ID == victim {
						return false
					}
				}
				return true
			})
		}
	})
}

// TestADrainingReplicaGetsNothingNewAndFinishesItsStream (C10): a stream of a minute, a drain of ninety seconds, and ten new requests a second.
func TestADrainingReplicaGetsNothingNewAndFinishesItsStream(t *testing.T) {
	var l loads
	inBubble(t, small(&l), func(b *bubble) {
		b.nodes(1)
		spec := sleeper("m", 1)
		spec.Engine.Args = []string{"--load-time=1s", "--tokens-per-second=10"}
		spec.Replicas, spec.Idle.UnloadAfter = fleet.ReplicaCount{Min: 2, Max: 2}, 0
		spec.Drain.Deadline = fleet.Duration(90 * time.Second)
		b.applySpec(spec)
		b.eventually("two replicas are ready", func() bool { return b.status().Replicas.Ready == 2 })
		streamed := make(chan string)
		go func() { streamed <- b.chat(0, "m", 600) }() // a minute
		time.Sleep(5 * time.Second)
		victim := ""
		for _, r := range b.replicas() {
			if len(l.of(r.ID)) > 0 {
				victim = r.ID
			}
		}
		if err := b.ctl.ReplicaDo(context.Background(), victim, "stop", "a test"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second) // a tick: every router has the table
		before := len(l.of(victim))
		for range 500 {
			if status, body := b.ask(1, "m", 1); status != http.StatusOK {
				t.Fatalf("%d %s", status, body)
			}
		}
		if n := len(l.of(victim)) - before; n != 0 {
			t.Errorf("%d new requests reached the draining replica", n)
		}
		if r, ok := b.find(victim); !ok || r.State != fleet.DrainingDown {
			t.Errorf("the replica with a stream in flight is %+v", r)
		}
		if out := <-streamed; strings.Count(out, "data: ") < 601 || !strings.HasSuffix(out, "data: [DONE]\n\n") {
			t.Errorf("the stream was cut: %d events", strings.Count(out, "data: "))
		}
		if took := b.eventually("the drained replica is gone", func() bool { _, ok := b.find(victim); return !ok }); took > 5*time.Second {
			t.Errorf("it went %s after its stream", took)
		}
	})
}

// TestTheLeastTimeOfADrainHoldsWithNothingInFlight (C10).
func TestTheLeastTimeOfADrainHoldsWithNothingInFlight(t *testing.T) {
	var l loads
	inBubble(t, small(&l), func(b *bubble) {
		b.nodes(1)
		spec := sleeper("m", 1)
		spec.Replicas, spec.Idle.UnloadAfter = fleet.ReplicaCount{Min: 1, Max: 1}, 0
		spec.Drain.Minimum = fleet.Duration(10 * time.Second)
		b.applySpec(spec)
		b.eventually("a replica is ready", func() bool { return b.status().Replicas.Ready == 1 })
		r, _ := b.replicaOf("m")
		if err := b.ctl.ReplicaDo(context.Background(), r.ID, "stop", "a test"); err != nil {
			t.Fatal(err)
		}
		took := b.eventually("the stopped replica is gone", func() bool { _, ok := b.find(r.ID); return !ok })
		if took < 10*time.Second || took > 12*time.Second {
			t.Errorf("gone after %s; drain.minimum is 10 s", took)
		}
	})
}

func (b *bubble) find(id string) (wire.ReplicaView, bool) {
	b.t.Helper()
	for _, r := range b.replicas() {
		if r.ID == id {
			return r, true
		}
	}
	return wire.ReplicaView{}, false
}
