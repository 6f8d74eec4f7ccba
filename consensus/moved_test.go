package consensus

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"berth/fleet"
)

// follower gives one that does not lead.
func (r *rig) follower(leader *peer) *peer {
	for _, p := range r.all {
		if p != leader {
			return p
		}
	}
	r.t.Fatal("no follower")
	return nil
}

// A known id at a new address is taken, with its vote, when its process answers there and nobody answers at the old one.
func TestAPeerThatMoved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.dir = t.TempDir()
		leader := r.three()
		time.Sleep(time.Second)
		moving := r.follower(leader)
		id := moving.ID()
		if err := leader.AddNonvoter(t.Context(), id, "elsewhere:7301", false); !errors.Is(err, fleet.DuplicateID) || !strings.Contains(err.Error(), "nobody answers") {
			t.Errorf("nobody at the new address: %v", err)
		}
		if err := moving.stop(); err != nil {
			t.Fatal(err)
		}
		delete(r.all, id)
		r.tune = func(c *Config) {
			if c.ID == id {
				c.Network, c.Bind = r.net.Host("elsewhere"), "elsewhere:7301"
			}
		}
		back := r.start(id, -1)
		if err := leader.AddNonvoter(t.Context(), id, "elsewhere:7301", false); err == nil || !strings.Contains(err.Error(), "it answered at the old address") {
			t.Errorf("a moment after it answered at the old address: %v", err)
		}
		time.Sleep(5 * time.Second)
		if err := leader.AddNonvoter(t.Context(), id, "elsewhere:7301", false); err != nil {
			t.Fatalf("the move: %v", err)
		}
		if s, err := find(leader.Servers(), id); err != nil || s.Address != "elsewhere:7301" || !s.Voter {
			t.Errorf("%+v, %v", s, err)
		}
		r.write(leader, "after")
		r.until("it follows", func() bool { return back.CaughtUp() && back.has("after") })
	})
}

// Two processes with one name: the one that is known stays, both are named, and only an operator can say otherwise.
func TestTwoProcessesWithOneName(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		leader := r.three()
		time.Sleep(time.Second)
		original := r.follower(leader)
		id := original.ID()
		c := r.config(id)
		c.Network, c.Bind, c.Log = r.net.Host("elsewhere"), "elsewhere:7301", quiet()
		n, err := Open(c)
		if err != nil {
			t.Fatal(err)
		}
		defer n.Close()
		err = leader.AddNonvoter(t.Context(), id, "elsewhere:7301", false)
		if !errors.Is(err, fleet.DuplicateID) || !strings.Contains(err.Error(), id+":7301") || !strings.Contains(err.Error(), "elsewhere:7301") {
			t.Errorf("%v", err)
		}
		if s, _ := find(leader.Servers(), id); s.Address != id+":7301" {
			t.Errorf("%+v", s)
		}
		if err := leader.AddNonvoter(t.Context(), id, "elsewhere:7301", true); err != nil {
			t.Errorf("forced: %v", err)
		}
	})
}

// A voter that comes back with an empty disk has forgotten its votes and acknowledgements, and is not taken for what it was.
func TestAVoterWithAnEmptyDiskIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t) // in memory: what ends forgets
		leader := r.three()
		time.Sleep(time.Second)
		id := r.follower(leader).ID()
		r.kill(id)
		back := r.start(id, 0)
		time.Sleep(30 * time.Second)
		if back.Cluster() != "" || !strings.Contains(back.log.text(), "comes with an empty data directory") {
			t.Errorf("it is in cluster %q:\n%s", back.Cluster(), back.log.text())
		}
		if err := leader.Remove(t.Context(), id, false); err != nil {
			t.Fatal(err)
		}
		r.until("it has joined anew and has its vote", func() bool {
			s, err := find(leader.Servers(), id)
			return err == nil && s.Voter && back.CaughtUp()
		})
	})
}
