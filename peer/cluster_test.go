package peer

import (
	"bytes"
	"errors"
	"io"
	"maps"
	"net"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"berth/admin/client"
	"berth/fleet"
	"berth/fleet/wire"
	"berth/gossip"
	"berth/internal/durable"
)

var allPeers = []string{"peer-1", "peer-2", "peer-3"}

func TestLeaderKilledWritesGoOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.gossip = true
		r.three()
		defer time.Sleep(gossip.Linger)
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

func TestStatusIsTheSameFromEachPeer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.three()
		defer r.stopAll()
		r.leader()
		node := r.node("gpu-001", 8, 1, allPeers...)
		defer node.stop()
		r.apply(allPeers, spec("m", 2, 2))
		r.until(20*time.Second, "two replicas are ready", func() bool { return r.peers["peer-2"].ready("m") == 2 })
		time.Sleep(5 * time.Second)
		var first wire.Status
		for i, name := range allPeers {
			for _, mode := range []string{"", "stale", "consistent"} {
				s, _, err := r.client(name).Status(t.Context(), client.ReadOptions{Consistency: mode})
				if err != nil {
					t.Fatalf("%s %q: %v", name, mode, err)
				}
				if mode != "consistent" && s.Peer != name || s.ObservedAgeMS < 0 || s.ObservedAgeMS > 2000 {
					t.Errorf("%s %q: answered by %s, what the leader observes is %d ms old", name, mode, s.Peer, s.ObservedAgeMS)
				}
				s.KnowledgeAgeMS, s.ObservedAgeMS, s.Peer = 0, 0, ""
				if i == 0 && mode == "" {
					first = s
				}
				if !reflect.DeepEqual(s, first) {
					t.Errorf("%s %q says\n%+v\nand %s says\n%+v", name, mode, s, allPeers[0], first)
				}
			}
		}
		if first.Replicas.Ready != 2 || first.Nodes.Ready != 1 || first.Leader == "" {
			t.Errorf("status: %+v", first)
		}
	})
}

func TestClusterComesBackFromItsDataDirectories(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		dirs := map[string]string{}
		for _, name := range allPeers {
			dirs[name] = t.TempDir()
			r.run(name, dirs[name], 3)
		}
		r.leader()
		before := r.apply(allPeers, spec("kept", 0, 1))
		cluster := r.peers["peer-1"].State().Cluster().ID
		r.sameEverywhere()
		r.stopAll()

		for _, name := range allPeers {
			r.run(name, dirs[name], 3)
		}
		defer r.stopAll()
		leader := r.peers[r.leader()]
		m, ok := leader.State().Model("kept")
		if !ok || m.Changed != before.Index || leader.State().Cluster().ID != cluster {
			t.Fatalf("after the restart: model %+v of cluster %s", m, leader.State().Cluster().ID)
		}
		r.apply(allPeers, spec("new", 0, 1))
		r.sameEverywhere()
	})
}

func TestFourthPeerJoinsAndGetsAVote(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.three()
		defer r.stopAll()
		leader := r.leader()
		r.apply(allPeers, spec("m", 0, 1))
		r.run("peer-4", "", 0)
		voter := func() bool {
			list, _, err := r.client(allPeers...).Peers(t.Context())
			for _, p := range list {
				if err == nil && p.ID == "peer-4" {
					return p.Voter && p.HTTP == "peer-4:7300"
				}
			}
			return false
		}
		took := r.until(time.Minute, "the fourth peer has a vote", voter)
		if took < 10*time.Second {
			t.Errorf("it got its vote after %s; it has to keep up for 10 s first", took)
		}
		if _, ok := r.peers[leader].State().Server("peer-4"); !ok {
			t.Error("it has not announced itself")
		}
		r.apply([]string{"peer-4"}, spec("through-the-new-one", 0, 1))
		r.sameEverywhere()
	})
}

func TestStoppedLeaderHandsOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.three()
		defer r.stopAll()
		old := r.leader()
		time.Sleep(5 * time.Second)
		began := time.Now()
		r.stop(old)
		r.leader()
		if took := time.Since(began); took > time.Second {
			t.Errorf("it took %s until another peer led; an election would take no longer", took)
		}
	})
}

func TestDataDirectoryIsRefusedWhenItIsNotThisPeers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		dir := t.TempDir()
		r.run("peer-1", dir, 1)
		r.leader()
		other, err := New(r.config("peer-2", dir, 1))
		if err != nil {
			t.Fatal(err)
		}
		if err := other.Run(t.Context()); !errors.Is(err, durable.ErrLocked) {
			t.Errorf("a directory in use: %v", err)
		}
		r.stopAll()
		if other, err = New(r.config("peer-2", dir, 1)); err != nil {
			t.Fatal(err)
		}
		if err := other.Run(t.Context()); err == nil || !strings.Contains(err.Error(), `belongs to peer "peer-1"`) {
			t.Errorf("a directory of another peer: %v", err)
		}
	})
}

func TestPortInUseLeavesNothingBehind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		taken, err := r.net.Host("peer-1", ip["peer-1"]).Listen(t.Context(), "peer-1:7300")
		if err != nil {
			t.Fatal(err)
		}
		defer taken.Close()
		dir := t.TempDir()
		p, err := New(r.config("peer-1", dir, 1))
		if err != nil {
			t.Fatal(err)
		}
		if err := p.Run(t.Context()); !errors.Is(err, syscall.EADDRINUSE) || !strings.Contains(err.Error(), "--bind") {
			t.Fatalf("port in use: %v", err)
		}
		lock, err := durable.LockDir(dir)
		if err != nil {
			t.Fatalf("the data directory is still locked: %v", err)
		}
		_ = lock.Unlock()
	})
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

func TestRestoreBringsTheOldStateInANewEpoch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.three()
		defer r.stopAll()
		leader := r.leader()
		r.apply(allPeers, spec("old", 0, 1))
		c := r.client(allPeers...)
		saved, _, err := c.SaveSnapshot(t.Context(), false)
		if err != nil {
			t.Fatal(err)
		}
		file, err := io.ReadAll(saved)
		if err = errors.Join(err, saved.Close()); err != nil {
			t.Fatal(err)
		}
		r.apply(allPeers, spec("new", 0, 1))
		epoch := r.peers[leader].State().Cluster().Epoch

		if _, err := r.client(allPeers...).RestoreSnapshot(t.Context(), bytes.NewReader(file[:len(file)-1]), false); err == nil {
			t.Fatal("a file that is cut off was restored")
		}
		if _, err := r.client(leader).RestoreSnapshot(t.Context(), bytes.NewReader(file), false); err != nil {
			t.Fatal(err)
		}
		r.leader()
		state := r.peers[leader].State()
		_, hasNew := state.Model("new")
		_, hasOld := state.Model("old")
		if hasNew || !hasOld || state.Cluster().Epoch <= epoch {
			t.Errorf("after the restore: old %v, new %v, epoch %d after %d", hasOld, hasNew, state.Cluster().Epoch, epoch)
		}
		r.apply(allPeers, spec("later", 0, 1))
		r.sameEverywhere()
	})
}

// A peer that is started at another address finds the leader by itself and is taken there, with its vote and its data.
func TestAPeerAtANewAddress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		defer r.stopAll()
		dir := t.TempDir()
		for _, name := range allPeers {
			r.run(name, filepath.Join(dir, name), 3)
		}
		moving := r.someFollower()
		r.stop(moving)
		time.Sleep(6 * time.Second)
		r.tune = func(c *Config) {
			if c.Name != moving {
				return
			}
			c.Network = r.net.Host("elsewhere", "192.0.2.9")
			for _, e := range []*Endpoint{&c.HTTP, &c.Raft, &c.Gossip} {
				_, port, _ := net.SplitHostPort(e.Bind)
				e.Bind = net.JoinHostPort("elsewhere", port)
			}
		}
		r.run(moving, filepath.Join(dir, moving), 0)
		r.apply([]string{r.leader()}, spec("after", 0, 1))
		r.until(30*time.Second, "it is known at its new address and has what was written", func() bool {
			row, ok := r.peers[moving].State().Server(moving)
			_, there := r.peers[moving].State().Model("after")
			return ok && there && row.Raft == "elsewhere:7301" && row.HTTP == "elsewhere:7300"
		})
		list, _, err := r.client(r.leader()).Peers(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range list {
			if !p.Voter {
				t.Errorf("%+v", p)
			}
		}
	})
}

// A peer that leaves on its way out is taken out of the configuration, its row goes, and the others write on, also when it led.
func TestAPeerLeaves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		defer r.stopAll()
		r.tune = func(c *Config) {
			c.LeaveOnTerminate = true
			c.Fatal = func(err error) { t.Errorf("%s ends: %v", c.Name, err) }
		}
		r.three()
		time.Sleep(5 * time.Second)
		leader := r.leader()
		r.stop(leader)
		rest := slices.Sorted(maps.Keys(r.peers))
		r.apply(rest, spec("after", 0, 1))
		list, _, err := r.client(r.leader()).Peers(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if len(list) != 2 || list[0].ID == leader || list[1].ID == leader {
			t.Errorf("left over: %+v", list)
		}
		if _, ok := r.peers[rest[0]].State().Server(leader); ok {
			t.Error("its row is still there")
		}
	})
}

// Where too few would be left that answer, it only stops.
func TestAPeerDoesNotLeaveAtTheCostOfTheQuorum(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		defer r.stopAll()
		r.tune = func(c *Config) { c.LeaveOnTerminate = c.Name != "peer-1" }
		r.three()
		time.Sleep(5 * time.Second)
		r.leader()
		r.kill("peer-1")
		time.Sleep(20 * time.Second)
		leader := r.leader()
		r.stop(r.someFollower())
		left := 0
		for range r.peers[leader].State().Servers() {
			left++
		}
		if left != 3 {
			t.Errorf("%d rows are left", left)
		}
	})
}
