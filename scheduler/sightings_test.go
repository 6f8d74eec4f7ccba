package scheduler

import (
	"testing"
	"time"

	"berth/fleet"
)

func TestAReplicaGoesWhereItsWeightsAre(t *testing.T) {
	w := newWorld(t)
	for _, n := range []string{"n1", "n2", "n3"} {
		w.node(n, "fa", h100, 2)
	}
	m := w.model("m", 1, 1, h100)
	w.model("x", 1, 1, h100)
	w.put("r-m", "m", "n3", 0, 1)
	w.put("r-x", "x", "n1", 0, 1)
	o := NewSightings()
	o.Observe(0, &w.Snapshot)
	w.Replicas = w.Replicas[1:]
	o.Observe(time.Second, &w.Snapshot)
	if got := Plan(w.Snapshot).Items[0].Place.Shards[0].Node; got != "n3" {
		t.Errorf("m goes to %s; its weights are on n3", got)
	}
	m.Spec.Engine.Weights = "org/other"
	o.Observe(2*time.Second, &w.Snapshot)
	if got := Plan(w.Snapshot).Items[0].Place.Shards[0].Node; got != "n1" {
		t.Errorf("with other weights m goes to %s; n1 is the tightest", got)
	}
}

func TestCardsWithRecentFaultsAreTakenLast(t *testing.T) {
	w := newWorld(t)
	n := w.node("n1", "fa", h100, 4)
	w.node("n2", "fa", l40s, 4)
	sick := &n.Inventory.GPUs[0]
	sick.Health = fleet.Unhealthy
	o := NewSightings()
	o.Observe(0, &w.Snapshot)
	sick.Health = fleet.Healthy
	w.model("m", 1, 2, h100)
	o.Observe(time.Hour, &w.Snapshot)
	claims := Plan(w.Snapshot).Items[0].Place.Shards[0].Claims
	if claims[0].GPU != n.Inventory.GPUs[1].UUID || claims[1].GPU != n.Inventory.GPUs[2].UUID {
		t.Errorf("the claims are %v; the first card was unhealthy an hour ago", claims)
	}
	w.modelNamed("m").Spec.Placement.GPUsPerNode = 4
	if got := len(Plan(w.Snapshot).Items); got != 1 {
		t.Error("where there is no other, a card that is healthy again is taken")
	}
	o.Observe(26*time.Hour, &w.Snapshot)
	w.modelNamed("m").Spec.Placement.GPUsPerNode = 2
	if claims := Plan(w.Snapshot).Items[0].Place.Shards[0].Claims; claims[0].GPU != sick.UUID {
		t.Errorf("a day later the claims are still %v", claims)
	}
}

func TestWaitingIsCountedFromTheFirstRefusal(t *testing.T) {
	w := newWorld(t)
	w.node("n1", "fa", h100, 1)
	w.model("m", 1, 2, h100)
	o := NewSightings()
	for at := range 3 {
		o.Observe(time.Duration(at)*time.Minute, &w.Snapshot)
		if got := w.Waited["m"]; got != time.Duration(at)*time.Minute {
			t.Errorf("after %d m it has waited %s", at, got)
		}
		o.Note(time.Duration(at)*time.Minute, Plan(w.Snapshot))
	}
	o.Note(3*time.Minute, fleet.Plan{})
	o.Observe(4*time.Minute, &w.Snapshot)
	if len(w.Waited) != 0 {
		t.Errorf("nothing is refused, and %v wait", w.Waited)
	}
}

// Demand is given anew only when its kind has changed, so that a planner need not measure its fleet again with every replica.
func TestHistoryAnswersTheSameUntilDemandDrifts(t *testing.T) {
	var h History
	w := newWorld(t)
	a, b := w.model("a", 1, 1, h100), w.model("b", 1, 8, h100)
	h.Ask(&a.Spec, 60)
	h.Ask(&b.Spec, 40)
	first := h.Asked()
	h.Ask(&a.Spec, 10)
	if again := h.Asked(); &again[0] != &first[0] {
		t.Error("the demand is hardly another, but the answer is")
	}
	h.Ask(&a.Spec, 90)
	if again := h.Asked(); again[0].Times != 160 || first[0].Times != 60 {
		t.Errorf("after it has drifted: %v, and before: %v", again, first)
	}
	h.Observe(w.Models)
	h.Observe(w.Models)
	a.Want = 3
	h.Observe(w.Models)
	if h.total != 200+2+2 {
		t.Errorf("%d counted; the two models are counted once, and two replicas more once", h.total)
	}
}
