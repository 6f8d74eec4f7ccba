package dev

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"berth/fleet"
	"berth/fleet/wire"
)

// gang is a model over two whole nodes that is unloaded after half a minute of quiet.
func gang() fleet.ModelSpec {
	spec := sleeper("gang", 8)
	spec.Placement.Nodes = 2
	spec.Replicas.Max = 1
	return spec
}

// TestAGangIsUnloadedFromItsDoor: both ranks end, once rank 0 has said that its door is shut and empty, and the next request wakes it whole.
func TestAGangIsUnloadedFromItsDoor(t *testing.T) {
	var l loads
	inBubble(t, func(c *Config) { c.Nodes = 2; l.watch(c) }, func(b *bubble) {
		b.nodes(2)
		b.applySpec(gang())
		for round := range 2 {
			if status, body := b.ask(0, "gang", 1); status != http.StatusOK {
				t.Fatalf("round %d: %d %s", round, status, body)
			}
			b.eventually("the quiet gang is unloaded, and its sixteen cards are free", func() bool { return len(b.replicas()) == 0 && b.status().GPUs[0].Free == 16 })
		}
		if l.count() != 4 {
			t.Errorf("%d engines in two rounds of two ranks", l.count())
		}
	})
}

// silentGang is a gang that is being unloaded for five seconds, while the agent of its rank 0 is down for so long.
func (b *bubble) silentGang(down time.Duration) wire.ReplicaView {
	b.t.Helper()
	b.nodes(2)
	b.applySpec(gang())
	if status, body := b.ask(0, "gang", 1); status != http.StatusOK {
		b.t.Fatalf("%d %s", status, body)
	}
	r, _ := b.replicaOf("gang")
	b.freeze()
	time.Sleep(40 * time.Second) // due
	go b.thaw()
	time.Sleep(15 * time.Millisecond) // the planner has not looked yet
	if err := b.RestartAgent(r.Shards[0].Node, down); err != nil {
		b.t.Fatal(err)
	}
	time.Sleep(5 * time.Second)
	now, ok := b.replicaOf("gang")
	if !ok || now.State != fleet.DrainingDown || now.Drain == nil || now.Drain.Mark == nil || now.Drain.DoorShut {
		b.t.Fatalf("five seconds into the silence of rank 0's agent the gang is %+v", now)
	}
	return r
}

// TestAGangWhoseDoorStaysSilentIsTakenBack (rule 12): the leader withdraws what nobody can decide, before the node is given up. The gang that was ready
// all the time is ready for everybody, and is unloaded by its door once that is heard.
func TestAGangWhoseDoorStaysSilentIsTakenBack(t *testing.T) {
	var l loads
	inBubble(t, func(c *Config) { c.Nodes = 2; l.watch(c) }, func(b *bubble) {
		r := b.silentGang(26 * time.Second)
		time.Sleep(18 * time.Second)
		now, _ := b.replicaOf("gang")
		if now.ID != r.ID || now.State != fleet.Ready || !strings.Contains(now.Reason, "the agent of "+r.Shards[0].Node) || l.count() != 2 {
			t.Fatalf("it is %s, %s, %q, after %d engines", now.ID, now.State, now.Reason, l.count())
		}
		if status, body := b.ask(1, "gang", 1); status != http.StatusOK {
			t.Errorf("while its agent is silent: %d %s", status, body)
		}
		b.eventually("its door decides once it is heard", func() bool { return len(b.replicas()) == 0 && b.status().GPUs[0].Free == 16 })
		if l.count() != 2 {
			t.Errorf("%d engines", l.count())
		}
	})
}

// TestAGangWaitsForASilentDoor (rule 12): the agent of rank 0 is down when the gang is to be unloaded. Nothing is ended meanwhile: the door takes requests,
// and one that comes is served by both ranks. When the agent is back it answers for the door.
func TestAGangWaitsForASilentDoor(t *testing.T) {
	var l loads
	inBubble(t, func(c *Config) { c.Nodes = 2; l.watch(c) }, func(b *bubble) {
		r := b.silentGang(15 * time.Second)
		if status, body := b.ask(1, "gang", 1); status != http.StatusOK {
			t.Errorf("the only replica, with its door open: %d %s", status, body)
		}
		b.eventually("the gang is ready again", func() bool { r, _ := b.replicaOf("gang"); return r.State == fleet.Ready })
		if again, _ := b.replicaOf("gang"); again.ID != r.ID || again.Reason != "asked for again" || l.count() != 2 {
			t.Errorf("it is %s, %q, after %d engines", again.ID, again.Reason, l.count())
		}
	})
}
