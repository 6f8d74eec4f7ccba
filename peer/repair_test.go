package peer

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"berth/fleet"
)

// readyOn lists the nodes on which a model has ready replicas.
func (p *running) readyOn(model string) []string {
	var out []string
	for r := range p.State().ReplicasOf(model) {
		if r.State == fleet.Ready {
			out = append(out, r.Shards[0].Node)
		}
	}
	return out
}

func TestReplicaOfADeadNodeIsReplacedAndItsClaimsStay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.three()
		defer r.stopAll()
		leader := r.peers[r.leader()]
		one := r.node("gpu-001", 8, 1, allPeers...)
		r.until(10*time.Second, "the node is registered", func() bool { return r.registered("gpu-001") })
		r.apply(allPeers, spec("m", 1, 1))
		r.until(20*time.Second, "a replica is ready", func() bool { return leader.ready("m") == 1 })
		two := r.node("gpu-002", 8, 1, allPeers...)
		defer two.stop()
		time.Sleep(2 * time.Minute)

		one.stop()
		r.until(time.Minute, "a replacement is ready", func() bool { return slices.Contains(leader.readyOn("m"), "gpu-002") })
		n, _ := leader.State().Node("gpu-001")
		held := 0
		for _, g := range n.Inventory.GPUs {
			for range leader.State().Claims("gpu-001", g.UUID) {
				held++
			}
		}
		if !n.Unreachable || held != 1 {
			t.Errorf("unreachable %v, %d of its cards are claimed; nobody has proved its card empty", n.Unreachable, held)
		}
	})
}

func TestABrokenNodeDoesNotEatEveryRetry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.three()
		defer r.stopAll()
		leader := r.peers[r.leader()]
		broken := r.node("gpu-001", 1, 1, allPeers...) // the tighter node is preferred
		defer broken.stop()
		broken.mu.Lock()
		broken.broken = true
		broken.mu.Unlock()
		good := r.node("gpu-002", 8, 1, allPeers...)
		defer good.stop()
		r.until(10*time.Second, "both nodes are registered", func() bool { return r.registered("gpu-001") && r.registered("gpu-002") })
		r.apply(allPeers, spec("m", 1, 1))
		r.until(30*time.Second, "a replica is ready", func() bool { return leader.ready("m") == 1 })
		broken.mu.Lock()
		defer broken.mu.Unlock()
		if broken.starts != 1 || !slices.Equal(leader.readyOn("m"), []string{"gpu-002"}) {
			t.Errorf("%d starts on the broken node, ready on %v", broken.starts, leader.readyOn("m"))
		}
	})
}

func TestABrokenModelBacksOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.three()
		defer r.stopAll()
		r.leader()
		var nodes []*agent
		for _, name := range []string{"gpu-001", "gpu-002"} {
			n := r.node(name, 1, 1, allPeers...)
			defer n.stop()
			n.broken = true // no order can have come: there is no model yet
			nodes = append(nodes, n)
		}
		r.until(10*time.Second, "both nodes are registered", func() bool { return r.registered("gpu-001") && r.registered("gpu-002") })
		r.apply(allPeers, spec("m", 1, 1))
		time.Sleep(10 * time.Minute)
		starts := 0
		for _, n := range nodes {
			n.mu.Lock()
			starts += n.starts
			n.mu.Unlock()
		}
		// A pair of model and node waits 1, 2, 4 minutes and so on, with up to a quarter more: at most four starts a node in ten minutes.
		if starts < 4 || starts > 8 {
			t.Errorf("%d starts in ten minutes", starts)
		}
	})
}

func TestNothingIsPlacedWhileFrozen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.three()
		defer r.stopAll()
		leader := r.peers[r.leader()]
		node := r.node("gpu-001", 8, 1, allPeers...)
		defer node.stop()
		r.until(10*time.Second, "the node is registered", func() bool { return r.registered("gpu-001") })
		if err := r.client(allPeers...).Freeze(t.Context(), "new switches"); err != nil {
			t.Fatal(err)
		}
		r.apply(allPeers, spec("m", 1, 1))
		time.Sleep(time.Minute)
		if n := len(slices.Collect(leader.State().ReplicasOf("m"))); n != 0 {
			t.Fatalf("%d replicas placed while frozen", n)
		}
		if err := r.client(allPeers...).Thaw(t.Context()); err != nil {
			t.Fatal(err)
		}
		r.until(5*time.Second, "a replica is ready", func() bool { return leader.ready("m") == 1 })
	})
}

func TestNobodyIsJudgedByALeaderThatIsCutOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.three()
		defer r.stopAll()
		old := r.leader()
		node := r.node("gpu-001", 8, 1, allPeers...)
		defer node.stop()
		r.until(10*time.Second, "the node is registered", func() bool { return r.registered("gpu-001") })
		time.Sleep(2 * time.Minute)
		r.hub.drop(roleAgent, "gpu-001") // heartbeats are all there is

		r.net.Isolate(old)
		for range 300 {
			time.Sleep(time.Second)
			for name, p := range r.peers {
				if n, ok := p.State().Node("gpu-001"); !ok || n.Unreachable {
					t.Fatalf("on %s the node is unreachable; it never stopped sending heartbeats", name)
				}
			}
		}
		others := slices.DeleteFunc(slices.Clone(allPeers), func(p string) bool { return p == old })
		r.apply(others, spec("meanwhile", 0, 1))
		r.net.HealAll()
		r.sameEverywhere()
	})
}
