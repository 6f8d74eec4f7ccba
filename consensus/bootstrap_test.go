package consensus

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"berth/fleet"
)

// orders are all start orders of three peers.
var orders = [][]int{{1, 2, 3}, {1, 3, 2}, {2, 1, 3}, {2, 3, 1}, {3, 1, 2}, {3, 2, 1}}

// oneCluster waits until every peer belongs to a cluster and fails unless it is the same one.
func (r *rig) oneCluster() string {
	r.t.Helper()
	r.until("all peers in a cluster", func() bool {
		for _, p := range r.all {
			if p.Cluster() == "" {
				return false
			}
		}
		return true
	})
	cluster := ""
	for id, p := range r.all {
		if cluster != "" && p.Cluster() != cluster {
			r.t.Fatalf("%s belongs to %s, another to %s", id, p.Cluster(), cluster)
		}
		cluster = p.Cluster()
	}
	return cluster
}

func TestBootstrapOnceInEveryStartOrder(t *testing.T) {
	for _, order := range orders {
		for _, gap := range []time.Duration{0, 300 * time.Millisecond, 5 * time.Second} {
			t.Run(fmt.Sprint(order, gap), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					r := newRig(t)
					for _, i := range order {
						r.start(fmt.Sprintf("peer-%d", i), 3)
						time.Sleep(gap)
					}
					cluster := r.oneCluster()
					leader := r.leader()
					if got := leader.machine.State().Cluster().ID; got != cluster {
						t.Errorf("the state is of cluster %q, the peers of %q", got, cluster)
					}
					if len(leader.Servers()) != 3 {
						t.Errorf("servers %+v", leader.Servers())
					}
					r.write(leader, "a")
					r.same(leader)
				})
			})
		}
	}
}

func TestFourthPeerJoinsAndIsPromoted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		leader := r.three()
		r.write(leader, "a")
		fourth := r.start("peer-4", 3)
		r.oneCluster()
		r.same(leader)
		voter := func() bool { s, err := find(leader.Servers(), "peer-4"); return err == nil && s.Voter }
		if voter() {
			t.Error("an empty peer has a vote at once")
		}
		start := time.Now()
		r.until("promotion", voter)
		if took := time.Since(start); took < promoteAfter-time.Second {
			t.Errorf("promoted after %v", took)
		}
		if !fourth.CaughtUp() {
			t.Error("promoted before it had caught up")
		}
	})
}

// Peers that crash at random while they bootstrap, with different views of who is there, end in one cluster.
func TestBootstrapThroughCrashes(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rnd := rand.New(rand.NewPCG(seed, 1))
	for range 20 {
		synctest.Test(t, func(t *testing.T) {
			r := newRig(t)
			r.dir = t.TempDir()
			for range 12 {
				id := fmt.Sprintf("peer-%d", 1+rnd.IntN(4))
				if r.all[id] != nil {
					r.kill(id)
				} else {
					r.start(id, 3)
				}
				time.Sleep(time.Duration(rnd.IntN(900)) * time.Millisecond)
			}
			for i := 1; i <= 4; i++ {
				if id := fmt.Sprintf("peer-%d", i); r.all[id] == nil {
					r.start(id, 3)
				}
			}
			r.oneCluster()
			leader := r.leader()
			r.write(leader, "a")
			r.same(leader)
		})
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
}

func TestPromiseIsGivenToOneProposerAtATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		n := r.start("peer-2", -1).Node
		n.expect.Store(2)
		ask := func(proposer, cluster string) fleet.Code {
			p := Promise{Cluster: cluster, Proposer: proposer, Peers: []Candidate{{proposer, "x:1"}, {"peer-2", n.Address()}}}
			if err := n.promise(p, proposer); err != nil {
				return fleet.CodeOf(err)
			}
			return ""
		}
		for _, c := range []struct {
			proposer, cluster string
			want              fleet.Code
		}{
			{"peer-1", "c-1", ""},
			{"peer-1", "c-1", ""},             // asked again after a lost answer
			{"peer-0", "c-0", fleet.Conflict}, // first come, first served
			{"peer-1", "c-2", ""},             // its own newer proposal replaces the one it gave up
		} {
			if got := ask(c.proposer, c.cluster); got != c.want {
				t.Errorf("promise to %s for %s: %q, want %q", c.proposer, c.cluster, got, c.want)
			}
		}
		if err := n.promise(Promise{Cluster: "c", Proposer: "peer-1", Peers: []Candidate{{"peer-1", "x:1"}}}, "peer-1"); fleet.CodeOf(err) != fleet.NotReady {
			t.Errorf("a cluster of another size: %v", err)
		}
	})
}
