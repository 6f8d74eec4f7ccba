package dev

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"berth/admin/client"
	"berth/agent/engine/sim"
	"berth/fleet"
	"berth/fleet/wire"
)

// loads counts the starts of simulated engines by model, and keeps the engines by replica.
type loads struct {
	mu      sync.Mutex
	engines map[string][]*sim.Engine
	all     int
}

func (l *loads) watch(c *Config) {
	l.engines = map[string][]*sim.Engine{}
	c.Engine = func(_, replica string, e *sim.Engine) {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.engines[replica] = append(l.engines[replica], e)
		l.all++
	}
}

func (l *loads) count() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.all
}

// of gives what the engines of a replica have received, oldest first.
func (l *loads) of(replica string) []sim.Record {
	l.mu.Lock()
	defer l.mu.Unlock()
	var out []sim.Record
	for _, e := range l.engines[replica] {
		out = append(out, e.Requests()...)
	}
	return out
}

// sleeper is a model on whole cards of one node that is at zero until somebody asks, and unloaded after half a minute of quiet.
func sleeper(name string, gpus int) fleet.ModelSpec {
	spec := fleet.DefaultedSpec()
	spec.Version, spec.Kind, spec.Name = 1, "model", name
	spec.Engine = fleet.EngineSpec{Driver: "sim", Weights: name, Args: []string{"--load-time=5s"}}
	spec.Placement.GPUsPerNode = gpus
	spec.Replicas = fleet.ReplicaCount{Min: 0, Max: 2}
	spec.Idle = fleet.IdleSpec{UnloadAfter: fleet.Duration(30 * time.Second), MinResidence: fleet.Duration(5 * time.Second)}
	spec.Drain = fleet.DrainSpec{Deadline: fleet.Duration(30 * time.Second), Minimum: fleet.Duration(time.Second)}
	return spec
}

func (b *bubble) applySpec(spec fleet.ModelSpec) {
	b.t.Helper()
	if _, err := b.ctl.Apply(context.Background(), spec, client.ApplyOptions{}); err != nil {
		b.t.Fatalf("apply %s: %v", spec.Name, err)
	}
	time.Sleep(time.Second) // the routers have it
}

func (b *bubble) nodes(n int) {
	b.t.Helper()
	b.eventually(fmt.Sprintf("%d nodes", n), func() bool { return b.status().Nodes.Ready == n })
	for _, url := range b.RouterURLs() {
		b.eventually("a routing table", func() bool {
			res, err := b.http.Get(url + "/models")
			if err == nil {
				res.Body.Close()
			}
			return err == nil && res.StatusCode == http.StatusOK
		})
	}
}

func (b *bubble) replicaOf(model string) (wire.ReplicaView, bool) {
	b.t.Helper()
	for _, r := range b.replicas() {
		if r.Model == model {
			return r, true
		}
	}
	return wire.ReplicaView{}, false
}

// ask sends one chat without a stream and gives the status and the body.
func (b *bubble) ask(router int, model string, tokens int) (int, string) {
	return b.post(b.RouterURLs()[router]+"/chat/completions", nil, model, tokens)
}

// TestEachWakeIsLikeTheFirst (C06): three rounds of asking, unloading and asking again, and then a burst that causes one load.
func TestEachWakeIsLikeTheFirst(t *testing.T) {
	var l loads
	inBubble(t, l.watch, func(b *bubble) {
		b.nodes(4)
		b.applySpec(sleeper("sleeper", 1))
		doors := map[string]bool{}
		for round := range 3 {
			asked := time.Now()
			if status, body := b.ask(0, "sleeper", 3); status != http.StatusOK {
				t.Fatalf("round %d: %d %s", round, status, body)
			}
			if took := time.Since(asked); took < 5*time.Second || took > 8*time.Second {
				t.Errorf("round %d: the first answer came after %s, and loading takes 5 s", round, took)
			}
			used := time.Now()
			r, _ := b.replicaOf("sleeper")
			doors[r.ID+r.Door.Address] = true
			b.eventually("the quiet replica is unloaded", func() bool { return len(b.replicas()) == 0 })
			if quiet := time.Since(used); quiet < 30*time.Second || quiet > 42*time.Second {
				t.Errorf("round %d: gone %s after the last use, and unload_after is 30 s", round, quiet)
			}
			if m, _, err := b.ctl.Model(context.Background(), "sleeper"); err != nil || m.Want != 0 {
				t.Fatalf("round %d: %d wanted after the unload, %v", round, m.Want, err)
			}
		}
		if l.count() != 3 || len(doors) != 3 {
			t.Errorf("%d loads behind %d doors in three rounds", l.count(), len(doors))
		}
		var served, refused int
		var mu sync.Mutex
		var all sync.WaitGroup
		for i := range 200 {
			all.Go(func() {
				status, body := b.ask(i%2, "sleeper", 1)
				mu.Lock()
				defer mu.Unlock()
				switch status {
				case http.StatusOK:
					served++
				case http.StatusServiceUnavailable:
					refused++
				default:
					t.Errorf("%d %s", status, body)
				}
			})
		}
		all.Wait()
		if served != 200 || l.count() != 4 {
			t.Errorf("of 200 requests at once %d were served and %d refused, by %d loads", served, refused, l.count()-3)
		}
	})
}

// TestAQuietReplicaMakesRoom: the fleet is full; what nobody asks for goes for what somebody asks for, and what is pinned or in use stays.
func TestAQuietReplicaMakesRoom(t *testing.T) {
	var l loads
	inBubble(t, func(c *Config) { c.Nodes = 1; l.watch(c) }, func(b *bubble) {
		b.nodes(1)
		for _, name := range []string{"quiet", "busy", "pinned", "woken"} {
			spec := sleeper(name, 2)
			if name == "pinned" || name == "woken" {
				spec.Placement.GPUsPerNode = map[string]int{"pinned": 4, "woken": 2}[name]
			}
			spec.Pin, spec.Idle.UnloadAfter = name == "pinned", 0
			b.applySpec(spec)
		}
		for _, name := range []string{"pinned", "quiet", "busy"} {
			if status, body := b.ask(0, name, 1); status != http.StatusOK {
				t.Fatalf("%s: %d %s", name, status, body)
			}
		}
		for range 6 {
			time.Sleep(5 * time.Second)
			b.ask(1, "busy", 1)
		}
		asked := time.Now()
		if status, body := b.ask(0, "woken", 1); status != http.StatusOK {
			t.Fatalf("woken: %d %s", status, body)
		}
		if took := time.Since(asked); took > 12*time.Second {
			t.Errorf("the woken model answered after %s; loading takes 5 s", took)
		}
		var left []string
		for _, r := range b.replicas() {
			left = append(left, r.Model)
		}
		if got := strings.Join(left, " "); !strings.Contains(got, "busy") || !strings.Contains(got, "pinned") || strings.Contains(got, "quiet") {
			t.Errorf("left are %s", got)
		}
	})
}

// TestARequestThatCannotBeServedIsToldWhy: no room, and nothing that may make some.
func TestARequestThatCannotBeServedIsToldWhy(t *testing.T) {
	inBubble(t, func(c *Config) { c.Nodes = 1 }, func(b *bubble) {
		b.nodes(1)
		full := sleeper("full", 8)
		full.Replicas.Min, full.Idle.UnloadAfter = 1, 0
		b.applySpec(full)
		b.applySpec(sleeper("woken", 1))
		b.eventually("full is ready", func() bool { return b.status().Models.Satisfied == 2 })
		status, body := b.ask(0, "woken", 1)
		if status != http.StatusServiceUnavailable || !strings.Contains(body, "largest free block 0") || !strings.Contains(body, "nothing makes room") {
			t.Errorf("%d %s", status, body)
		}
	})
}

// TestAFrozenFleetUnloadsNothing: and what was due goes once it is thawed.
func TestAFrozenFleetUnloadsNothing(t *testing.T) {
	inBubble(t, func(c *Config) { c.Nodes = 1 }, func(b *bubble) {
		b.nodes(1)
		b.applySpec(sleeper("sleeper", 1))
		b.ask(0, "sleeper", 1)
		if err := b.ctl.Freeze(context.Background(), "a look at the fleet"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(3 * time.Minute)
		if r, ok := b.replicaOf("sleeper"); !ok || r.State != fleet.Ready {
			t.Fatalf("under a freeze the quiet replica is %+v", r)
		}
		if err := b.ctl.Thaw(context.Background()); err != nil {
			t.Fatal(err)
		}
		b.eventually("the quiet replica is unloaded", func() bool { return len(b.replicas()) == 0 })
	})
}
