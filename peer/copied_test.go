package peer

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"berth/fleet"
)

// TestACopiedNodeTakesNothingOver: while the agent that is registered answers, its copy on another host is refused, with both addresses, and nothing is
// done for it; its heartbeats do not cover the original's, though both go to one follower. A machine that has moved is taken once its old agent is silent.
func TestACopiedNodeTakesNothingOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.three()
		defer r.stopAll()
		leader, follower := r.leader(), r.someFollower()
		node := func() *fleet.Node {
			n, _ := r.peers[leader].State().Node("n1")
			return n
		}
		original := r.node("n1", 1, 1, follower)
		r.until(10*time.Second, "the node is registered", func() bool { return node() != nil })
		copied := r.nodeAt("elsewhere", "n1", 1, 2, follower)
		defer copied.stop()
		copied.mu.Lock()
		copied.seq = 1000 // its heartbeats are newer than the original's by every number that they carry
		copied.mu.Unlock()
		time.Sleep(2 * time.Minute)
		if n := node(); n.Instance != 1 || n.Unreachable || n.Address != "n1:7310" {
			t.Errorf("with a copy beside it: %+v", n)
		}
		err := copied.register(context.Background())
		if !errors.Is(err, fleet.DuplicateID) || !strings.Contains(err.Error(), "n1:7310") || !strings.Contains(err.Error(), "elsewhere:7310") {
			t.Errorf("the copy was told: %v", err)
		}
		original.stop()
		r.until(10*time.Second, "the one that is left is taken", func() bool { return node().Instance == 2 })
	})
}
