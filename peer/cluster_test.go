package peer

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"berth/admin/client"
	"berth/fleet"
)

var allPeers = []string{"peer-1", "peer-2", "peer-3"}

func TestLeaderKilledWritesGoOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.three()
		defer r.stopAll()
		old := r.leader()
		node := r.node("gpu-001", 8, 1, allPeers...)
		defer node.stop()
		r.until(10*time.Second, "the node is registered", func() bool { _, ok := r.peers[old].State().Node("gpu-001"); return ok })
		r.apply(allPeers, spec("before", 2, 2))
		r.until(20*time.Second, "two replicas are ready", func() bool { return r.peers[old].ready("before") == 2 })

		r.kill(old)
		r.apply(allPeers, spec("after", 1, 1))
		next := r.leader()
		if next == old {
			t.Fatalf("%s leads and is dead", old)
		}
		r.until(20*time.Second, "the model applied after the kill is ready", func() bool { return r.peers[next].ready("after") == 1 })
		if n := r.peers[next].ready("before"); n != 2 {
			t.Errorf("%d of 2 replicas from before", n)
		}
		r.sameEverywhere()
	})
}

// sameEverywhere waits until all peers are at one index and compares what they hold.
func (r *rig) sameEverywhere() {
	r.t.Helper()
	prints := func() map[fleet.Index]map[string]bool {
		out := make(map[fleet.Index]map[string]bool)
		for _, p := range r.peers {
			s := p.State()
			if out[s.Index()] == nil {
				out[s.Index()] = make(map[string]bool)
			}
			out[s.Index()][s.Fingerprint()] = true
		}
		return out
	}
	var last map[fleet.Index]map[string]bool
	r.until(30*time.Second, "all peers at one index", func() bool { last = prints(); return len(last) == 1 })
	for index, different := range last {
		if len(different) != 1 {
			r.t.Errorf("at index %s the peers hold %d different states", index, len(different))
		}
	}
}

func TestConfigSaysAllThatIsWrongAtOnce(t *testing.T) {
	err := Config{HTTP: Endpoint{Bind: "7300"}, Raft: Endpoint{Bind: ":7301"}, Gossip: Endpoint{Bind: "127.0.0.1:7302"}, BootstrapExpect: -1}.Validate()
	if err == nil {
		t.Fatal("accepted")
	}
	for _, want := range []string{"--name", "--data-dir", `--bind "7300"`, "--advertise", "--bootstrap-expect", "--join", "TLS"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("nothing of %s in:\n%v", want, err)
		}
	}
}

func TestAPeerWithoutAClusterSaysSo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.run("peer-1", "", 3)
		defer r.stopAll()
		<-r.peers["peer-1"].Started()
		time.Sleep(10 * time.Second)
		_, _, err := r.client("peer-1").Status(t.Context(), client.ReadOptions{})
		if !errors.Is(err, fleet.NoLeader) && !errors.Is(err, fleet.NotReady) {
			t.Fatalf("status of a peer without a cluster: %v", err)
		}
	})
}
