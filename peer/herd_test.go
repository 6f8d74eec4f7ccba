package peer

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"berth/fleet"
)

// herd is how many agents come at once.
const herd = 1000

// A thousand agents lose their leader at one moment and come to the next one together: it is not deposed for it, hears all of them before their grace has
// passed, and answers people meanwhile.
func TestAThousandAgentsComeToANewLeader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		defer r.stopAll()
		r.three()
		r.leader()
		var agents []*agent
		for i := range herd {
			agents = append(agents, r.node(fmt.Sprintf("gpu-%04d", i), 8, 1, allPeers[i%3], allPeers[(i+1)%3], allPeers[(i+2)%3]))
		}
		defer func() {
			for _, a := range agents {
				a.end()
			}
			for _, a := range agents {
				a.stop()
			}
		}()
		r.until(2*time.Minute, "all are registered and heard", func() bool { return len(r.peers[r.leader()].board.Observed().Nodes) == herd })
		time.Sleep(5 * time.Second)
		r.kill(r.leader())
		leader := r.leader()
		began, term := time.Now(), r.peers[leader].board.Observed().Term
		slowest := time.Duration(0)
		ask := func() {
			asked := time.Now()
			ctx, end := context.WithTimeout(t.Context(), 10*time.Second)
			defer end()
			if _, _, err := r.client(leader).Peers(ctx); err != nil {
				t.Errorf("%v after the election: %v", time.Since(began), err)
			}
			slowest = max(slowest, time.Since(asked))
		}
		heard := r.until(time.Minute, "the new leader has heard all", func() bool {
			ask()
			return len(r.peers[leader].board.Observed().Nodes) == herd
		})
		if grace := fleet.DefaultSettings().NodeGrace.Std(); heard > grace {
			t.Errorf("it took %v to hear all; their grace is %v", heard, grace)
		}
		time.Sleep(15 * time.Second)
		if now := r.peers[leader].board.Observed(); r.leader() != leader || now.Term != term {
			t.Errorf("a second election: %s led in term %d, and %s leads in term %d", leader, term, r.leader(), now.Term)
		}
		t.Logf("all heard %v after the election; the slowest answer to a person took %v", heard, slowest)
	})
}
