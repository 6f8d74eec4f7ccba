package peer

import (
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"berth/admin/client"
	"berth/fleet"
	"berth/fleet/wire"
	"berth/idle"
)

// unreachable says whether every peer knows the node as unreachable.
func (r *rig) unreachable(node string) bool {
	for _, p := range r.peers {
		if n, ok := p.State().Node(node); !ok || !n.Unreachable {
			return false
		}
	}
	return true
}

func (r *rig) registered(node string) bool {
	n, ok := r.peers[r.leader()].State().Node(node)
	return ok && !n.Unreachable
}

func TestSilentNodeIsUnreachableByTwoWitnessesAndReturns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.three()
		defer r.stopAll()
		r.leader()
		node := r.node("gpu-001", 8, 1, allPeers...)
		defer node.stop()
		r.until(10*time.Second, "the node is registered", func() bool { return r.registered("gpu-001") })
		time.Sleep(2 * time.Minute) // past the truce

		node.silence(true)
		time.Sleep(4 * time.Minute)
		if r.unreachable("gpu-001") {
			t.Fatal("judged while gossip sees it alive")
		}
		r.hub.drop(roleAgent, "gpu-001")
		r.until(3*time.Second, "both witnesses are silent", func() bool { return r.unreachable("gpu-001") })

		node.silence(false)
		r.until(5*time.Second, "the node is back", func() bool { return r.registered("gpu-001") })

		// The other witness first: without gossip, but with heartbeats, nothing happens.
		time.Sleep(2 * time.Minute)
		if !r.registered("gpu-001") {
			t.Fatal("judged while it sends heartbeats")
		}
		node.silence(true)
		took := r.until(time.Minute, "silent for a grace", func() bool { return r.unreachable("gpu-001") })
		if grace := 30 * time.Second; took < grace-time.Second || took > grace+5*time.Second {
			t.Errorf("judged after %s, the grace is %s", took, grace)
		}
	})
}

func TestNewLeaderHoldsATruce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.three()
		defer r.stopAll()
		old := r.leader()
		node := r.node("gpu-001", 8, 1, allPeers...)
		r.until(10*time.Second, "the node is registered", func() bool { return r.registered("gpu-001") })
		time.Sleep(2 * time.Minute)
		node.stop()
		r.kill(old)
		r.leader()
		took := r.until(3*time.Minute, "the truce is over", func() bool { return r.unreachable("gpu-001") })
		if took < 59*time.Second || took > 65*time.Second {
			t.Errorf("judged after %s, the truce is 60 s", took)
		}
	})
}

func TestDemandWakesAModelAtZero(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.three()
		defer r.stopAll()
		leader := r.leader()
		node := r.node("gpu-001", 8, 1, allPeers...)
		defer node.stop()
		r.until(10*time.Second, "the node is registered", func() bool { return r.registered("gpu-001") })
		r.apply(allPeers, spec("m", 0, 2))
		time.Sleep(10 * time.Second)
		if n := len(slices.Collect(r.peers[leader].State().ReplicasOf("m"))); n != 0 {
			t.Fatalf("%d replicas that nobody asked for", n)
		}
		report := wire.Report{Version: wire.Version, Router: "r1", Boot: 1, Seq: 1, All: true, Demand: map[string]wire.Demand{"m": {Waiting: 1, Oldest: 0.1}}}
		if _, err := r.client(r.someFollower()).Report(t.Context(), report); err != nil {
			t.Fatal(err)
		}
		r.until(3*time.Second, "a replica is ready", func() bool { return r.peers[leader].ready("m") == 1 })
	})
}

// quietOf reads the ledger's word on the only replica of a model, as any peer shows it.
func (r *rig) quietOf(model string) (wire.IdleView, bool) {
	answer, _, err := r.client(allPeers...).Idle(r.t.Context())
	for _, v := range answer.Replicas {
		if err == nil && v.Model == model && v.QuietSeconds >= 0 {
			return v, true
		}
	}
	return wire.IdleView{}, false
}

func TestQuietIsKnownAgainAfterAFailoverWithItsFullLength(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.three()
		defer r.stopAll()
		old := r.leader()
		node := r.node("gpu-001", 8, 1, allPeers...)
		defer node.stop()
		r.apply(allPeers, spec("m", 1, 1))
		r.until(20*time.Second, "a replica is ready", func() bool { return r.peers[old].ready("m") == 1 })
		ready := time.Now()
		time.Sleep(10 * time.Minute)
		before, ok := r.quietOf("m")
		if !ok || before.IdleSeconds != -1 || before.QuietSeconds < 590 {
			t.Fatalf("before: %+v, %v", before, ok)
		}

		r.kill(old)
		r.leader()
		bound := 2*time.Second + 3*idle.Tick
		took := r.until(bound, "the new leader is certain", func() bool { _, ok := r.quietOf("m"); return ok })
		after, _ := r.quietOf("m")
		if least := time.Since(ready).Seconds()*0.99 - 5; after.QuietSeconds < least {
			t.Errorf("quiet for %.0f s after the failover, at least %.0f are certain", after.QuietSeconds, least)
		}
		if after.IdleSeconds != -1 {
			t.Errorf("nobody ever asked for it, and it is idle for %.0f s", after.IdleSeconds)
		}
		t.Logf("known again after %s", took)
	})
}

func TestQuietIsKnownThroughAFollower(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.three()
		defer r.stopAll()
		leader := r.peers[r.leader()]
		node := r.node("gpu-001", 8, 1, r.someFollower())
		defer node.stop()
		r.apply(allPeers, spec("m", 1, 1))
		r.until(20*time.Second, "a replica is ready", func() bool { return leader.ready("m") == 1 })
		r.until(2*time.Second+3*idle.Tick, "the leader is certain", func() bool { _, ok := r.quietOf("m"); return ok })
		for range 60 { // and stays so: each heartbeat returns a stamp that is new enough
			time.Sleep(time.Second)
			if v, ok := r.quietOf("m"); !ok || v.AsOfSeconds > 5 {
				t.Fatalf("unknown again: %+v", v)
			}
		}
	})
}

func TestDrainOfANodeMovesItsReplicasAndEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.three()
		defer r.stopAll()
		leader := r.peers[r.leader()]
		one := r.node("gpu-001", 8, 1, allPeers...)
		defer one.stop()
		r.until(10*time.Second, "the node is registered", func() bool { return r.registered("gpu-001") })
		r.apply(allPeers, spec("m", 1, 1))
		r.until(20*time.Second, "a replica is ready", func() bool { return leader.ready("m") == 1 })
		two := r.node("gpu-002", 8, 1, allPeers...)
		defer two.stop()
		r.until(10*time.Second, "the other node is registered", func() bool { return r.registered("gpu-002") })

		c := r.client(allPeers...)
		if err := c.DrainNode(t.Context(), "gpu-001", "new cards", time.Hour); err != nil {
			t.Fatal(err)
		}
		state := func() string { n, _ := leader.State().Node("gpu-001"); return n.Drain.State }
		r.until(time.Minute, "the drain is done", func() bool { return state() == drainDone })
		if leader.ready("m") != 1 {
			t.Error("the replica was not replaced")
		}
		for rep := range leader.State().ReplicasOf("m") {
			if rep.State == fleet.Ready && rep.Shards[0].Node != "gpu-002" {
				t.Errorf("ready on %s", rep.Shards[0].Node)
			}
		}
	})
}

func TestDrainEndsAtItsDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.three()
		defer r.stopAll()
		leader := r.peers[r.leader()]
		node := r.node("gpu-001", 8, 1, allPeers...)
		defer node.stop()
		r.until(10*time.Second, "the node is registered", func() bool { return r.registered("gpu-001") })
		r.apply(allPeers, spec("m", 1, 1))
		r.until(20*time.Second, "a replica is ready", func() bool { return leader.ready("m") == 1 })
		if err := r.client(allPeers...).DrainNode(t.Context(), "gpu-001", "", 40*time.Second); err != nil {
			t.Fatal(err)
		}
		state := func() string { n, _ := leader.State().Node("gpu-001"); return n.Drain.State }
		took := r.until(time.Minute, "the drain has ended", func() bool { return state() != drainRunning })
		if state() != drainTimedOut || took < 39*time.Second {
			t.Errorf("%s after %s; there is nowhere to go, and the deadline is 40 s", state(), took)
		}
	})
}

func TestRefusedModelIsListedWithSinceWhen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.three()
		defer r.stopAll()
		r.leader()
		node := r.node("gpu-001", 2, 1, allPeers...)
		defer node.stop()
		r.until(10*time.Second, "the node is registered", func() bool { return r.registered("gpu-001") })
		big := spec("big", 1, 1)
		big.Placement.GPUsPerNode = 16
		if _, err := r.client(allPeers...).Apply(t.Context(), big, client.ApplyOptions{}); !errors.Is(err, fleet.Unplaceable) {
			t.Fatalf("what no node could ever hold: %v", err)
		}
		if _, err := r.client(allPeers...).Apply(t.Context(), big, client.ApplyOptions{AllowUnplaceable: true}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(10 * time.Second)
		s, _, err := r.client(r.someFollower()).Status(t.Context(), client.ReadOptions{Consistency: "stale"})
		if err != nil || len(s.Unplaceable) != 1 || s.Unplaceable[0].Model != "big" || s.Unplaceable[0].SinceSeconds < 8 {
			t.Fatalf("unplaceable: %+v, %v", s.Unplaceable, err)
		}
	})
}

func TestScaledDownReplicaLeavesAndDeletedModelGoes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.three()
		defer r.stopAll()
		leader := r.peers[r.leader()]
		node := r.node("gpu-001", 4, 1, allPeers...)
		defer node.stop()
		r.apply(allPeers, spec("m", 3, 4))
		r.until(20*time.Second, "three replicas are ready", func() bool { return leader.ready("m") == 3 })
		if _, err := r.client(allPeers...).Scale(t.Context(), "m", 1); err != nil {
			t.Fatal(err)
		}
		all := func() int { return len(slices.Collect(leader.State().ReplicasOf("m"))) }
		r.until(20*time.Second, "one replica is left", func() bool { return all() == 1 && leader.ready("m") == 1 })
		if _, err := r.client(allPeers...).DeleteModel(t.Context(), "m"); err != nil {
			t.Fatal(err)
		}
		r.until(20*time.Second, "the model is gone", func() bool { _, there := leader.State().Model("m"); return !there && all() == 0 })
		time.Sleep(time.Second) // history is written down a little later
		var texts []string
		events, _ := leader.board.Events(0)
		for _, e := range events {
			texts = append(texts, e.Text)
		}
		for _, want := range []string{"created, 3 wanted", "1 wanted, before 3", "is being deleted", "gone", "placed", "ready"} {
			if !slices.Contains(texts, want) {
				t.Errorf("no event says %q", want)
			}
		}
	})
}
