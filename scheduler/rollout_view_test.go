package scheduler

import (
	"testing"

	"berth/fleet"
)

func TestRolloutIsSeenAndPaused(t *testing.T) {
	w := f0(t)
	m := w.model("m", 1, 1, h100, replicas(2), rollout(1, 0))
	w.settle(nil)
	sees := func(state string, fresh, old int) {
		t.Helper()
		v, ok := Rollout(w.Snapshot, "m")
		if !ok || v.State != state || v.New != fresh || v.Old != old {
			t.Fatalf("want %s with %d new and %d old, got %+v", state, fresh, old, v)
		}
	}
	sees("complete", 2, 0)
	m.Generation = 2
	sees("going", 0, 2)
	w.step()
	sees("going", 1, 2)
	m.Paused = true
	w.start()
	if plan := w.step(); len(plan.Items) != 0 || len(plan.Refusals) != 0 {
		t.Fatalf("a paused rollout goes on: %+v", plan)
	}
	sees("paused", 1, 2)
	w.Replicas = w.Replicas[1:] // one of the old is gone: what is missing is placed all the same, but nothing beyond
	w.Replicas = w.Replicas[1:]
	if plan := w.step(); len(plan.Items) != 1 || plan.Items[0].Place == nil {
		t.Fatalf("one replica is missing, the plan is %+v", plan)
	}
	m.Paused = false
	w.start()
	w.settle(nil)
	sees("complete", 2, 0)
	if _, ok := Rollout(w.Snapshot, "nobody"); ok {
		t.Error("a rollout of nothing")
	}
}

func TestAPausedModelLeavesADrainingNode(t *testing.T) {
	w := f0(t)
	w.model("m", 1, 1, h100).Paused = true
	w.settle(nil)
	old := w.nodesOf("m")[0]
	w.nodeNamed(old).Admin = fleet.Draining
	w.settle(nil)
	if got := w.nodesOf("m"); len(got) != 1 || got[0] == old {
		t.Errorf("m runs on %v; %s is being drained", got, old)
	}
}

func TestAStoppedRolloutSaysWhy(t *testing.T) {
	w := f0(t)
	m := w.model("m", 1, 1, h100)
	w.settle(nil)
	m.Generation = 2
	for _, id := range []string{"r-9.1", "r-9.2", "r-9.3"} {
		r := w.put(id, "m", "n2", 0, 1)
		r.Generation, r.State, r.Reason, r.Shards[0].Released = 2, fleet.Failed, "exit 1", true
	}
	v, _ := Rollout(w.Snapshot, "m")
	const want = "rollout of generation 2 stopped after 3 replicas of it failed, the old ones are kept; last: exit 1"
	if v.State != "stopped" || v.Reason != want || v.Old != 1 || v.Failed != 3 {
		t.Errorf("got %+v", v)
	}
}

// What a replica takes of its host is what its own generation asked for, not what the present one does.
func TestAnOldReplicaHoldsWhatItsOwnSpecAskedFor(t *testing.T) {
	w := newWorld(t)
	w.node("n1", "fa", h100, 4)
	m := w.model("m", 1, 1, h100, func(s *fleet.ModelSpec) { s.Placement.CPUs = 1 })
	before := m.Spec
	before.Placement.CPUs = 60
	w.put("r-1", "m", "n1", 0, 1)
	m.Generation = 2
	w.model("x", 1, 1, h100, func(s *fleet.ModelSpec) { s.Placement.CPUs = 10 })
	w.Specs = func(model string, generation uint64) *fleet.ModelSpec {
		if model == "m" && generation == 1 {
			return &before
		}
		return nil
	}
	if r := refusal(Plan(w.Snapshot), "x"); r.Reason == "" {
		t.Error("x is placed beside a replica that holds 60 of the 64 CPUs")
	}
	w.Specs = nil
	if r := refusal(Plan(w.Snapshot), "x"); r.Reason != "" {
		t.Errorf("without the old spec the present one speaks: %+v", r)
	}
}
