package scheduler

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"berth/fleet"
)

// C09: a drained node's only replica is replaced first, and stops once the replacement is ready; with no block free it is kept.
func TestNodeDrainReplacesFirst(t *testing.T) {
	w := f0(t)
	w.model("m", 1, 8, h100)
	w.put("r-1", "m", "n1", 0, 8)
	w.nodeNamed("n1").Admin = fleet.Draining
	plan := w.step()
	if len(plan.Items) != 1 || plan.Items[0].Place == nil {
		t.Fatalf("want one placement and nothing else, got %+v", plan.Items)
	}
	if again := w.step(); len(again.Items) != 0 {
		t.Fatalf("while the replacement loads nothing is to be done, got %+v", again.Items)
	}
	w.start()
	plan = w.step()
	if len(plan.Items) != 1 || plan.Items[0].Stop == nil || plan.Items[0].Stop.Replica != "r-1" {
		t.Fatalf("the replacement is ready, so r-1 is to stop; got %+v", plan.Items)
	}
}

func TestNodeDrainWaitsForRoom(t *testing.T) {
	w := f0(t)
	w.model("m", 1, 8, h100)
	w.model("other", 1, 8, h100, replicas(2))
	w.put("r-1", "m", "n1", 0, 8)
	w.put("r-2", "other", "n2", 0, 8)
	w.put("r-3", "other", "n3", 0, 8)
	w.nodeNamed("n1").Admin = fleet.Draining
	plan := w.step()
	if len(plan.Items) != 0 {
		t.Fatalf("no block is free, so the old one is kept; got %+v", plan.Items)
	}
	r := refusal(plan, "m")
	if want := "waiting: no free block of 8 x h100-80 for m"; !strings.HasPrefix(r.Reason, want) || r.Short != 0 {
		t.Errorf("refusal %+v, want short 0 and the reason %q…", r, want)
	}
}

// C20: classes are never mixed, in a placement or in a count.
func TestClassesAreNeverMixed(t *testing.T) {
	w := newWorld(t)
	n := w.node("n5", "fb", h100, 2)
	for i := range 2 {
		n.Inventory.GPUs = append(n.Inventory.GPUs, fleet.GPU{UUID: fmt.Sprint("l", i), Index: 2 + i, Class: l40s, Memory: 48 * fleet.GiB, Health: fleet.Healthy})
	}
	w.model("four", 1, 4, h100)
	plan := w.step()
	if got, want := refusal(plan, "four").Reason, "needs 4 x h100-80 on one node, largest free block 2"; !strings.HasPrefix(got, want) {
		t.Errorf("refusal %q, want %q…", got, want)
	}
	w.model("two", 1, 2, h100)
	w.step()
	if got := w.of("two", fleet.Starting); len(got) != 1 || got[0].Shards[0].Claims[0].GPU != "n5-h100-80-0" {
		t.Errorf("two h100 are to be placed on the two h100: %+v", got)
	}
}

// C21: an unhealthy card leaves the free ones at once, and returns when it is healthy again.
func TestUnhealthyCardIsNotFree(t *testing.T) {
	w := newWorld(t)
	n := w.node("n1", "fa", h100, 8)
	n.Inventory.GPUs[3].Health = fleet.Unhealthy
	w.model("m", 1, 8, h100)
	r := refusal(w.step(), "m")
	if !strings.Contains(r.Reason, "largest free block 7; 1 node: 1 x h100-80 unhealthy") {
		t.Errorf("refusal %q", r.Reason)
	}
	n.Inventory.GPUs[3].Health = fleet.Healthy
	w.step()
	if len(w.of("m", fleet.Starting)) != 1 {
		t.Error("the card is healthy again, but the model was not placed")
	}
}

// C23: a replica whose card is gone is replaced; its claim on nothing takes nothing.
func TestVanishedCardIsReplaced(t *testing.T) {
	w := newWorld(t)
	n := w.node("n1", "fa", h100, 2)
	w.model("m", 1, 1, h100)
	w.put("r-1", "m", "n1", 0, 1)
	n.Inventory.GPUs = n.Inventory.GPUs[1:]
	w.settle(nil)
	if got := w.of("m", fleet.Ready); len(got) != 1 || got[0].Shards[0].Claims[0].GPU != "n1-h100-80-1" {
		t.Errorf("want one replica on the card that is left, got %+v", got)
	}
}

// C25: eight single free cards are no block of eight; the big model holds nothing and does not stop the small one.
func TestBigModelDoesNotBlockSmallOnes(t *testing.T) {
	w := newWorld(t)
	w.model("filler", 1, 7, h100, replicas(8), func(s *fleet.ModelSpec) { s.Pin = true })
	for i := range 8 {
		name := fmt.Sprintf("n%d", i)
		w.node(name, "fa", h100, 8)
		w.put("r-"+name, "filler", name, 0, 7)
	}
	w.model("big", 1, 8, h100, func(s *fleet.ModelSpec) { s.Priority = 90 })
	w.model("small", 1, 1, h100)
	plan := w.step()
	if r := refusal(plan, "big"); !strings.Contains(r.Reason, "largest free block 1; 8 nodes: 8 x h100-80 busy") {
		t.Errorf("refusal of big: %+v", r)
	}
	if len(w.of("small", fleet.Starting)) != 1 {
		t.Error("small was not placed behind big")
	}
	w.Replicas = slices.DeleteFunc(w.Replicas, func(r *fleet.Replica) bool { return r.Model == "filler" })
	w.Models = slices.DeleteFunc(w.Models, func(m *fleet.Model) bool { return m.Name() == "filler" })
	w.step()
	if len(w.of("big", fleet.Starting)) != 1 {
		t.Error("a whole node is free, but big was not placed")
	}
}

// C26: of two rivals for a whole fabric one runs and the other holds nothing.
func TestRivalGangs(t *testing.T) {
	w := newWorld(t)
	w.node("n1", "fa", h100, 8)
	w.node("n2", "fa", h100, 8)
	w.model("y", 2, 8, h100)
	w.model("x", 2, 8, h100)
	plan := w.step()
	if len(plan.Items) != 1 || plan.Items[0].Place == nil || plan.Items[0].Place.Model != "y" {
		t.Fatalf("y is older, so y alone is placed; got %+v", plan.Items)
	}
	if r := refusal(plan, "x"); r.Short != 1 || !strings.Contains(r.Reason, "2 x h100-80 busy") {
		t.Errorf("refusal of x: %+v", r)
	}
}

// C28: free cards of two fabrics never add up, and an unknown fabric joins nothing.
func TestGangStaysInOneFabric(t *testing.T) {
	w := f0(t)
	w.model("filler", 1, 8, h100)
	w.put("r-1", "filler", "n2", 0, 8)
	w.node("u1", "", h100, 8)
	w.node("u2", "", h100, 8)
	w.model("g", 2, 8, h100)
	plan := w.step()
	r := refusal(plan, "g")
	if len(plan.Items) != 0 || !strings.Contains(r.Reason, "largest free block in one fabric 8") {
		t.Fatalf("plan %+v", plan)
	}
	for _, want := range []fleet.ReasonCount{{Reason: "in another fabric", Nodes: 1}, {Reason: "free in fabric fa", Nodes: 1}, {Reason: "in no known fabric", Nodes: 3}, {Reason: "h100-80 busy", Nodes: 1}} {
		if !slices.Contains(r.Counts, want) {
			t.Errorf("counts %+v lack %+v", r.Counts, want)
		}
	}
}

func TestSplitReplicaIsNotKilled(t *testing.T) {
	w := f0(t)
	w.model("g", 2, 8, h100)
	w.settle(nil)
	w.nodeNamed("n2").Overrides = map[string]string{"fabric": "fb"}
	if plan := w.step(); len(plan.Items) != 0 {
		t.Errorf("a fabric label that splits a replica flags it, no more; got %+v", plan.Items)
	}
}

func TestEqualSnapshotsGiveEqualPlans(t *testing.T) {
	w := f0(t)
	for i := range 6 {
		w.model(fmt.Sprint("m", i), 1, 2, "", func(s *fleet.ModelSpec) { s.Placement.Prefer = map[string]string{"a": "1", "b": "2"} })
	}
	w.model("big", 4, 8, h100)
	first := Plan(w.Snapshot)
	for range 50 {
		if again := Plan(w.Snapshot); !reflect.DeepEqual(first, again) {
			t.Fatalf("equal input, different plans:\n%+v\n%+v", first, again)
		}
	}
}

// Models that ask for the same are refused in the same words as long as the plan decides nothing in between, and in others when it has: each refusal is true
// of the room that is left when its model's turn comes.
func TestRefusalsOfOneKindAreTrueWhenTheyAreSaid(t *testing.T) {
	w := newWorld(t)
	w.node("n1", "fa", h100, 4)
	for i, gpus := range []int{5, 5, 2, 5, 5} {
		w.model(fmt.Sprint("m", i), 1, gpus, h100)
	}
	w.modelNamed("m4").Spec.Priority = 90 // goes first
	plan := Plan(w.Snapshot)
	for model, free := range map[string]string{"m4": "4", "m0": "4", "m1": "4", "m3": "2"} {
		if r := refusal(plan, model); !strings.Contains(r.Reason, "largest free block "+free+";") || r.Model != model || r.Short != 1 {
			t.Errorf("%s: %+v; the largest free block is %s", model, r, free)
		}
	}
	// one that has replicas, one that requests wait for, and one of a higher priority, are answered for themselves
	w = newWorld(t)
	w.node("n1", "fa", h100, 4)
	low := w.model("low", 1, 4, h100)
	low.Spec.Priority = 10
	w.step()
	w.model("a", 1, 4, h100).Spec.Priority = 10
	w.model("b", 1, 4, h100).Spec.Priority = 20
	plan = Plan(w.Snapshot)
	if r := refusal(plan, "a"); r.Short != 1 || len(plan.Items) != 1 || plan.Items[0].Stop == nil {
		t.Errorf("the one of higher priority makes room for itself, and the other is refused: %+v", plan)
	}
}
