package peer

import (
	"slices"
	"strings"
	"testing"
	"time"

	"berth/fleet"
	"berth/scheduler"
)

// scene feeds states of replicas to a memory of failures.
type scene struct {
	*failures
	now  time.Duration
	wall time.Time
	last []*fleet.Replica
}

func newScene() *scene {
	return &scene{failures: newFailures(), now: time.Hour, wall: time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)}
}

func (s *scene) see(d time.Duration, replicas ...*fleet.Replica) scheduler.Backoff {
	s.now, s.wall = s.now+d, s.wall.Add(d)
	var changed []scheduler.Row[fleet.Replica]
	for _, old := range s.last {
		if !slices.ContainsFunc(replicas, func(r *fleet.Replica) bool { return r.ID == old.ID }) {
			changed = append(changed, scheduler.Row[fleet.Replica]{Old: old})
		}
	}
	for _, r := range replicas {
		changed = append(changed, scheduler.Row[fleet.Replica]{New: r})
	}
	s.last = replicas
	s.observe(s.now, fleet.TimeOf(s.wall), changed)
	return s.backoff(s.now)
}

func (s *scene) replica(id, model string, state fleet.ReplicaState, nodes ...string) *fleet.Replica {
	r := &fleet.Replica{ID: id, Model: model, State: state, Start: 1, StateAt: fleet.TimeOf(s.wall)}
	for _, n := range nodes {
		r.Shards = append(r.Shards, fleet.Shard{Node: n})
	}
	return r
}

// within says whether a hold is that of n failures in a row, with its jitter.
func within(h scheduler.Hold, p pace, n int) bool {
	base := min(p.most, p.first<<(n-1))
	return h.For >= base && h.For <= base+base/4+1
}

func TestEachFailureInARowDoublesTheHold(t *testing.T) {
	s := newScene()
	for n, id := range []string{"r1", "r2", "r3"} {
		b := s.see(0, s.replica(id, "m", fleet.Failed, "n1"))
		if !within(b.Models["m"], holdModel, n+1) || !within(b.Pairs[scheduler.Pair{Model: "m", Node: "n1"}], holdPair, n+1) {
			t.Fatalf("after %d failures: %+v", n+1, b)
		}
		if len(b.Nodes) != 0 {
			t.Fatalf("one model that fails is no reason to suspect the node: %+v", b.Nodes)
		}
		if again := s.see(0, s.replica(id, "m", fleet.Failed, "n1")); !within(again.Models["m"], holdModel, n+1) {
			t.Fatalf("one failure was counted twice: %+v", again)
		}
	}
}

func TestReadyEndsTheStreak(t *testing.T) {
	s := newScene()
	s.see(0, s.replica("r1", "m", fleet.Failed, "n1"))
	b := s.see(time.Second, s.replica("r2", "m", fleet.Ready, "n1"))
	if len(b.Models) != 0 || len(b.Pairs) != 0 {
		t.Fatalf("still held: %+v", b)
	}
	if b := s.see(0, s.replica("r3", "m", fleet.Failed, "n1")); !within(b.Models["m"], holdModel, 1) {
		t.Fatalf("the streak did not begin anew: %+v", b)
	}
}

func TestNodeIsSuspectedWhenSeveralModelsFailThere(t *testing.T) {
	s := newScene()
	s.see(0, s.replica("r1", "m1", fleet.Failed, "n1"))
	if b := s.see(0, s.replica("r2", "m2", fleet.Failed, "n1"), s.replica("r3", "m2", fleet.Failed, "n1")); len(b.Nodes) != 0 || len(s.setAside(s.now)) != 0 {
		t.Fatalf("two models are not enough: %+v", b.Nodes)
	}
	last := s.replica("r4", "m3", fleet.Failed, "n1")
	last.Reason = "exit 1"
	b := s.see(0, last)
	if !within(b.Nodes["n1"], holdNode, 1) {
		t.Fatalf("nodes: %+v", b.Nodes)
	}
	const want = "3 models failed there (m1, m2, m3), last: exit 1"
	if lines := s.setAside(s.now); len(lines) != 1 || !strings.HasPrefix(lines[0], "node n1 is set aside for ") || !strings.HasSuffix(lines[0], want) {
		t.Errorf("a person reads %q", lines)
	}
}

func TestOnlyTheRankThatEndedIsBlamed(t *testing.T) {
	s := newScene()
	r := s.replica("r1", "m", fleet.Failed, "n1", "n2")
	r.Shards[1].Exit = &fleet.Exit{Code: 1}
	b := s.see(0, r)
	if len(b.Pairs) != 1 || !within(b.Pairs[scheduler.Pair{Model: "m", Node: "n2"}], holdPair, 1) {
		t.Fatalf("pairs: %+v", b.Pairs)
	}
}

func TestNewLeaderCountsFromWhenAReplicaFailed(t *testing.T) {
	s := newScene()
	old := s.replica("r1", "m", fleet.Failed, "n1")
	old.StateAt = fleet.TimeOf(s.wall.Add(-time.Hour))
	if b := s.see(0, old); len(b.Models) != 0 {
		t.Fatalf("held for what failed an hour ago: %+v", b)
	}
}

func TestGangIsNotStartedAgainAtOnce(t *testing.T) {
	s := newScene()
	r := s.replica("r1", "m", fleet.Starting, "n1", "n2")
	r.Shards[1].Exit = &fleet.Exit{Code: -1, Signal: "SIGKILL"}
	if b := s.see(0, r); !within(b.Restarts["r1"], holdRestart, 1) || b.Restarts["r1"].Cause != "rank 1 on n2 ended: SIGKILL" {
		t.Fatalf("restarts: %+v", b.Restarts)
	}
	if b := s.see(5*time.Second, r); len(b.Restarts) != 0 {
		t.Fatalf("one exit was counted twice: %+v", b.Restarts)
	}
	again := *r
	again.Start = 2
	if b := s.see(0, &again); !within(b.Restarts["r1"], holdRestart, 2) {
		t.Fatalf("restarts: %+v", b.Restarts)
	}
	if s.see(0); len(s.restarts) != 0 {
		t.Fatal("a replica that is gone is remembered")
	}
}

func TestHoldsAreBounded(t *testing.T) {
	for n := 1; n < 100; n++ {
		if d := holdPair.after(n); d < holdPair.first || d > holdPair.most+holdPair.most/4 {
			t.Fatalf("after %d failures: %s", n, d)
		}
	}
}
