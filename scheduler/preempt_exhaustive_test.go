package scheduler

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"berth/fleet"
)

// On tiny fleets: a model preempts exactly when it does not fit and some set of replicas that may go would let it in, and of what it takes nothing can be
// left out.
func TestPreemptionAgreesWithExhaustiveSearch(t *testing.T) {
	r := seeded(t)
	preempted := 0
	const rounds = 4000
	for round := range rounds {
		w := newWorld(t)
		for i := range 1 + r.IntN(3) {
			w.node(fmt.Sprint("n", i), oneOf(r, "fa", "fa", "fb"), oneOf(r, h100, h100, l40s), 1+r.IntN(3))
		}
		w.model("m", oneOf(r, 1, 1, 2), 1+r.IntN(3), oneOf(r, "", h100), priority(50))
		for i, n := range w.Nodes {
			for j := range n.Inventory.GPUs {
				if name := fmt.Sprintf("x%d%d", i, j); r.IntN(4) > 0 {
					w.model(name, 1, 1, "", priority(oneOf(r, 10, 20, 50, 60))).Spec.Pin = r.IntN(4) == 0
					w.put("r-"+name, name, n.Name, j, 1)
				}
			}
		}
		m := w.modelNamed("m")
		goes := goesFor(Plan(w.Snapshot), "m")
		if want := !possible(w.Snapshot, m) && possible(w.without(w.mayGo(m)...), m); want != (len(goes) > 0) {
			t.Fatalf("round %d: %v goes; that anything should is %v", round, goes, want)
		}
		if len(goes) == 0 {
			continue
		}
		preempted++
		if !possible(w.without(goes...), m) {
			t.Fatalf("round %d: %v goes, and m does not fit", round, goes)
		}
		for i := range goes {
			if !slices.Contains(w.mayGo(m), goes[i]) {
				t.Fatalf("round %d: %s goes, which may not", round, goes[i])
			}
			if fewer := slices.Delete(slices.Clone(goes), i, i+1); possible(w.without(fewer...), m) {
				t.Fatalf("round %d: of %v, %v would do", round, goes, fewer)
			}
		}
	}
	if preempted < rounds/20 {
		t.Errorf("%d of %d rounds preempt: the test says little", preempted, rounds)
	}
}

// goesFor returns what a plan stops for one model; what has to go may make something of lower priority go in its turn.
func goesFor(plan fleet.Plan, model string) []string {
	var out []string
	for _, item := range plan.Items {
		if item.Stop != nil && strings.HasPrefix(item.Stop.Reason, "makes room for "+model+",") {
			out = append(out, item.Stop.Replica)
		}
	}
	return out
}

// mayGo returns the replicas that may give way to a model.
func (w *world) mayGo(to *fleet.Model) []string {
	var out []string
	for _, r := range w.Replicas {
		if m := w.modelNamed(r.Model); !m.Spec.Pin && m.Spec.Priority < to.Spec.Priority {
			out = append(out, r.ID)
		}
	}
	return out
}

// without returns the fleet without some of its replicas.
func (w *world) without(ids ...string) Snapshot {
	s := w.Snapshot
	s.Replicas = slices.DeleteFunc(slices.Clone(s.Replicas), func(r *fleet.Replica) bool { return slices.Contains(ids, r.ID) })
	return s
}
