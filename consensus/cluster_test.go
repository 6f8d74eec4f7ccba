package consensus

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"berth/fleet"
	"berth/fsm"
)

func TestThreePeersSurviveTheirLeader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.dir = t.TempDir() // without its disk a voter would not be taken back
		first := r.three()
		for i := range 20 {
			r.write(first, fmt.Sprintf("a-%d", i))
		}
		r.same(first)
		r.kill(first.ID())
		start := time.Now()
		second := r.leader()
		r.write(second, "b")
		if took := time.Since(start); took > 4*time.Second {
			t.Errorf("writes went on after %v", took)
		}
		r.start(first.ID(), 3)
		r.same(second)
		if _, ok := second.machine.State().Server("a-19"); !ok {
			t.Error("an acknowledged write is gone")
		}
	})
}

func TestFollowerRefusesWritesAndNamesTheLeader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		leader := r.three()
		for id, p := range r.all {
			if p == leader {
				continue
			}
			err := put(p, "x")
			if !errors.Is(err, fleet.NoLeader) || fleet.AsError(err).Hint != "peer "+leader.ID()+" (raft "+leader.Address()+") does" {
				t.Errorf("%s: %v", id, err)
			}
		}
	})
}

func TestIsolatedLeaderDoesNotKnowWhatBecameOfAWrite(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		old := r.three()
		r.net.Isolate(old.ID())
		start := time.Now()
		err := put(old, "lost")
		if !errors.Is(err, fleet.OutcomeUnknown) {
			t.Errorf("write of an isolated leader: %v", err)
		}
		if took := time.Since(start); took > 2*time.Second {
			t.Errorf("the answer took %v", took)
		}
		_, _, age := old.Knowledge()
		if age < time.Since(start) {
			t.Errorf("an isolated peer claims knowledge %v old after %v", age, time.Since(start))
		}
		r.net.HealAll()
		time.Sleep(5 * time.Second)
		r.same(r.leader())
	})
}

func TestKnowledgeIsAsOldAsItSays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		leader := r.three()
		r.write(leader, "a")
		time.Sleep(time.Second)
		for id, p := range r.all {
			applied, commit, age := p.Knowledge()
			if commit != leader.CommitIndex() || applied != commit || age < 0 || age > 500*time.Millisecond || !p.CaughtUp() {
				t.Errorf("%s: applied %d, commit %d, age %v, caught up %v", id, applied, commit, age, p.CaughtUp())
			}
		}
		var cut *peer
		for _, p := range r.all {
			if p != leader {
				cut = p
			}
		}
		r.net.Isolate(cut.ID())
		since := time.Now()
		time.Sleep(10 * time.Second)
		r.write(leader, "b")
		if _, commit, age := cut.Knowledge(); commit >= leader.CommitIndex() || age < time.Since(since) {
			t.Errorf("cut off for %v: commit %d of %d, age %v", time.Since(since), commit, leader.CommitIndex(), age)
		}
	})
}

func TestReadIndexNeedsAQuorum(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		leader := r.three()
		r.write(leader, "a")
		index, err := leader.ReadIndex(t.Context())
		if err != nil || index < leader.AppliedIndex() {
			t.Errorf("read index %d, %v", index, err)
		}
		r.net.Isolate(leader.ID())
		if _, err := leader.ReadIndex(t.Context()); !errors.Is(err, fleet.NoLeader) {
			t.Errorf("without a quorum: %v", err)
		}
	})
}

func TestLeadJoinsBetweenTerms(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.start("peer-1", 1)
		n := r.leader().Node
		ctx, cancel := context.WithCancel(t.Context())
		running, most, starts := 0, 0, 0
		done := make(chan struct{})
		go func() {
			defer close(done)
			_ = n.Lead(ctx, func(ctx context.Context, _ uint64) error {
				running++
				starts++
				most = max(most, running)
				<-ctx.Done()
				time.Sleep(time.Second) // duties that take long to end
				running--
				return errors.New("says nothing after the end")
			})
		}()
		time.Sleep(time.Second)
		for range 3 { // lost and regained within an instant
			n.leadership.set(false)
			n.leadership.set(true)
			time.Sleep(10 * time.Millisecond)
		}
		time.Sleep(10 * time.Second)
		cancel()
		<-done
		if most != 1 || starts < 2 || running != 0 {
			t.Errorf("%d at once, %d starts, %d left", most, starts, running)
		}
	})
}

func TestLeadReturnsTheErrorOfItsDuties(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.start("peer-1", 1)
		broken := errors.New("broken")
		if err := r.leader().Lead(t.Context(), func(context.Context, uint64) error { return broken }); !errors.Is(err, broken) {
			t.Errorf("Lead: %v", err)
		}
	})
}

func TestRestartFromTheDataDirectory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.dir = t.TempDir()
		leader := r.three()
		cluster := leader.Cluster()
		for i := range 30 {
			r.write(leader, fmt.Sprintf("a-%d", i))
		}
		if err := leader.SnapshotNow(t.Context()); err != nil {
			t.Fatal(err)
		}
		r.write(leader, "after-the-snapshot")
		r.same(leader)
		for _, id := range []string{"peer-1", "peer-2", "peer-3"} {
			r.kill(id)
		}
		for _, id := range []string{"peer-3", "peer-1", "peer-2"} {
			p := r.start(id, 3)
			if p.Cluster() != cluster {
				t.Errorf("%s wakes in cluster %q", id, p.Cluster())
			}
			if p.CaughtUp() {
				t.Errorf("%s claims to have caught up before it has spoken to anyone", id)
			}
		}
		leader = r.leader()
		r.write(leader, "b")
		r.same(leader)
		for _, id := range []string{"a-0", "a-29", "after-the-snapshot"} {
			if _, ok := leader.machine.State().Server(id); !ok {
				t.Errorf("%s is gone", id)
			}
		}
	})
}

func TestRepeatedRequestGetsItsFirstAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.start("peer-1", 1)
		p := r.leader()
		cmd := fsm.ServerAnnounce{Server: fleet.Server{ID: "a", MaxLevel: 1}}
		one, err1 := p.Propose(t.Context(), fsm.Meta{Request: "q"}, cmd)
		two, err2 := p.Propose(t.Context(), fsm.Meta{Request: "q"}, cmd)
		if err1 != nil || err2 != nil || one.Index != two.Index {
			t.Errorf("%+v, %v; %+v, %v", one, err1, two, err2)
		}
	})
}
