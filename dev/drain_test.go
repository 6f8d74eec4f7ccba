package dev

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"berth/admin/client"
	"berth/fleet"
	"berth/fleet/wire"
)

// resident is a model of one replica that fills a node.
func resident(name string, load time.Duration) fleet.ModelSpec {
	spec := sleeper(name, 8)
	spec.Engine.Args = []string{"--load-time=" + load.String()}
	spec.Replicas, spec.Idle.UnloadAfter = fleet.ReplicaCount{Min: 1, Max: 1}, 0
	return spec
}

func (b *bubble) drain(node string, deadline time.Duration) {
	b.t.Helper()
	if err := b.ctl.DrainNode(context.Background(), node, "a test", deadline); err != nil {
		b.t.Fatalf("drain %s: %v", node, err)
	}
}

func (b *bubble) drainOf(node string) wire.DrainView {
	b.t.Helper()
	d, _, err := b.ctl.NodeDrain(context.Background(), node, client.ReadOptions{})
	if err != nil {
		b.t.Fatalf("drain of %s: %v", node, err)
	}
	return d
}

// TestADrainStartsTheReplacementFirst (C09): the only copy of a service moves to a free node, with twenty requests a second and none lost.
func TestADrainStartsTheReplacementFirst(t *testing.T) {
	inBubble(t, func(c *Config) { c.Nodes = 2 }, func(b *bubble) {
		b.nodes(2)
		b.applySpec(resident("m", 20*time.Second))
		b.eventually("m is ready", func() bool { return b.status().Replicas.Ready == 1 })
		from, _ := b.replicaOf("m")
		b.drain(from.Shards[0].Node, 5*time.Minute)
		ready := 9
		for end := time.Now().Add(30 * time.Second); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
			if status, body := b.ask(0, "m", 1); status != http.StatusOK {
				t.Fatalf("%d %s", status, body)
			}
			ready = min(ready, b.status().Replicas.Ready)
		}
		if ready < 1 {
			t.Error("for a while no replica was ready")
		}
		if d := b.drainOf(from.Shards[0].Node); d.State != "done" || len(d.Left) != 0 {
			t.Errorf("the drain: %+v", d)
		}
		if r, _ := b.replicaOf("m"); r.ID == from.ID || r.State != fleet.Ready {
			t.Errorf("m is %s, %s", r.ID, r.State)
		}
	})
}

// TestADrainWithoutRoomSaysSoAndKeepsServing (C09, C13): ten operators join one drain; it names what it waits for, and what is left at its deadline.
func TestADrainWithoutRoomSaysSoAndKeepsServing(t *testing.T) {
	inBubble(t, func(c *Config) { c.Nodes = 2 }, func(b *bubble) {
		b.nodes(2)
		b.applySpec(resident("m", time.Second))
		b.applySpec(resident("other", time.Second))
		b.eventually("both are ready", func() bool { return b.status().Replicas.Ready == 2 })
		r, _ := b.replicaOf("m")
		node := r.Shards[0].Node
		var all sync.WaitGroup
		for range 10 {
			all.Go(func() { b.drain(node, 20*time.Second) })
		}
		all.Wait()
		begun := b.drainOf(node).Started
		time.Sleep(3 * time.Second)
		d := b.drainOf(node)
		if want := "waiting: no free block of 8 x GPU for m, to replace " + r.ID; len(d.Waiting) != 1 || !strings.HasPrefix(d.Waiting[0], want) {
			t.Errorf("the drain waits for %q, want %q…", d.Waiting, want)
		}
		b.drain(node, time.Hour) // joins, and does not make it longer
		time.Sleep(20 * time.Second)
		d = b.drainOf(node)
		if d.State != "timed_out" || !slices.Equal(d.Left, []string{r.ID}) || d.Started != begun {
			t.Errorf("after the deadline of the drain begun at %s: %+v", begun, d)
		}
		if status, body := b.ask(0, "m", 1); status != http.StatusOK {
			t.Errorf("what was left no longer serves: %d %s", status, body)
		}
		if n, _, _ := b.ctl.Node(context.Background(), node); n.State != string(fleet.NodeCordoned) {
			t.Errorf("after the drain the node is %s", n.State)
		}
		if err := b.ctl.UndrainNode(context.Background(), node); err != nil {
			t.Errorf("undrain: %v", err)
		}
		if n, _, _ := b.ctl.Node(context.Background(), node); n.State != string(fleet.NodeReady) {
			t.Errorf("undrained, the node is %s", n.State)
		}
	})
}

// TestADrainIsCancelled: what has not moved stays.
func TestADrainIsCancelled(t *testing.T) {
	inBubble(t, func(c *Config) { c.Nodes = 1 }, func(b *bubble) {
		b.nodes(1)
		b.applySpec(resident("m", time.Second))
		b.eventually("m is ready", func() bool { return b.status().Replicas.Ready == 1 })
		b.drain("node-1", time.Hour)
		time.Sleep(5 * time.Second)
		if err := b.ctl.UndrainNode(context.Background(), "node-1"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(5 * time.Second)
		if d := b.drainOf("node-1"); d.State != "cancelled" {
			t.Errorf("the drain: %+v", d)
		}
		if r, ok := b.replicaOf("m"); !ok || r.State != fleet.Ready || b.status().Nodes.Ready != 1 {
			t.Errorf("m is %+v, and %d nodes are ready", r, b.status().Nodes.Ready)
		}
	})
}

// TestADeadNodeBlocksNoDrainAndIsForgotten (C13): the machine dies while it is drained. The drain has an end and names what is left; the operator's
// word that the machine is gone releases it, and not before: while its agent answers, it is refused.
func TestADeadNodeBlocksNoDrainAndIsForgotten(t *testing.T) {
	inBubble(t, func(c *Config) { c.Nodes = 2 }, func(b *bubble) {
		b.nodes(2)
		time.Sleep(70 * time.Second) // past the truce of the first leader
		b.applySpec(resident("m", time.Second))
		b.applySpec(resident("other", time.Second))
		b.eventually("both are ready", func() bool { return b.status().Replicas.Ready == 2 })
		r, _ := b.replicaOf("m")
		node := r.Shards[0].Node
		if err := b.ctl.ForgetNode(context.Background(), node); !errors.Is(err, fleet.Conflict) {
			t.Errorf("forgetting a node whose agent answers: %v", err)
		}
		b.drain(node, 20*time.Second)
		time.Sleep(10 * time.Second)
		if err := b.StopMachine(node); err != nil {
			t.Fatal(err)
		}
		time.Sleep(11 * time.Second)
		if d := b.drainOf(node); d.State != "timed_out" || !slices.Equal(d.Left, []string{r.ID}) {
			t.Errorf("the drain of a dead node: %+v", d)
		}
		b.eventually("the node is unreachable", func() bool { return b.status().Nodes.Unreachable == 1 })
		if err := b.ctl.ForgetNode(context.Background(), node); err != nil {
			t.Fatalf("forget: %v", err)
		}
		if _, ok := b.find(r.ID); ok && b.status().Nodes.Total != 1 {
			t.Errorf("after forgetting its node the replica is still there, and %d nodes", b.status().Nodes.Total)
		}
	})
}

// TestCordonPlacesNothingNew: what runs stays, and the rest waits until the node is uncordoned.
func TestCordonPlacesNothingNew(t *testing.T) {
	inBubble(t, func(c *Config) { c.Nodes = 1 }, func(b *bubble) {
		b.nodes(1)
		spec := resident("m", time.Second)
		spec.Placement.GPUsPerNode = 2
		b.applySpec(spec)
		b.eventually("m is ready", func() bool { return b.status().Replicas.Ready == 1 })
		if err := b.ctl.NodeDo(context.Background(), "node-1", "cordon", "a new fan"); err != nil {
			t.Fatal(err)
		}
		spec.Name = "late"
		b.applySpec(spec)
		time.Sleep(10 * time.Second)
		s := b.status()
		if s.Replicas.Ready != 1 || len(s.Unplaceable) != 1 || !strings.Contains(s.Unplaceable[0].Reason, "1 cordoned") {
			t.Errorf("with the only node cordoned: %+v, %+v", s.Replicas, s.Unplaceable)
		}
		if err := b.ctl.NodeDo(context.Background(), "node-1", "uncordon", ""); err != nil {
			t.Fatal(err)
		}
		b.eventually("late is ready", func() bool { return b.status().Replicas.Ready == 2 })
	})
}

// TestARestartIsTheSameReplicaAgain: its claim, its id and its door stay, and its engine is another.
func TestARestartIsTheSameReplicaAgain(t *testing.T) {
	var l loads
	inBubble(t, func(c *Config) { c.Nodes = 1; l.watch(c) }, func(b *bubble) {
		b.nodes(1)
		b.applySpec(resident("m", time.Second))
		b.eventually("m is ready", func() bool { return b.status().Replicas.Ready == 1 })
		before, _ := b.replicaOf("m")
		if err := b.ctl.ReplicaDo(context.Background(), before.ID, "restart", "a test"); err != nil {
			t.Fatal(err)
		}
		b.eventually("m is ready again", func() bool { r, _ := b.replicaOf("m"); return r.State == fleet.Ready && r.Start == 2 })
		after, _ := b.replicaOf("m")
		if after.ID != before.ID || after.Door.Address != before.Door.Address || l.count() != 2 {
			t.Errorf("before %s at %s, after %s at %s, %d engines", before.ID, before.Door.Address, after.ID, after.Door.Address, l.count())
		}
		if status, body := b.ask(0, "m", 1); status != http.StatusOK {
			t.Error(fmt.Sprint(status, " ", body))
		}
	})
}
