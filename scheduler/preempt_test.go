package scheduler

import (
	"slices"
	"strings"
	"testing"
	"time"

	"berth/fleet"
)

func priority(n int) func(*fleet.ModelSpec) { return func(s *fleet.ModelSpec) { s.Priority = n } }

// crowded has one node of four cards, each taken by a replica of a model of its own: a and b of priority 20, c of 30, d of 60.
func crowded(t *testing.T) *world {
	w := newWorld(t)
	w.node("n1", "fa", h100, 4)
	for i, m := range []struct {
		name     string
		priority int
	}{{"a", 20}, {"b", 20}, {"c", 30}, {"d", 60}} {
		w.model(m.name, 1, 1, h100, priority(m.priority))
		w.put("r-"+m.name, m.name, "n1", i, 1)
	}
	return w
}

func TestWhatIsPreempted(t *testing.T) {
	for what, c := range map[string]struct {
		gpus, priority int
		change         func(*world)
		goes           string
	}{
		"one card: one of the lowest priority":        {1, 50, nil, "r-a"},
		"two cards: no more than that":                {2, 50, nil, "r-a r-b"},
		"three cards: the next priority too":          {3, 50, nil, "r-a r-b r-c"},
		"four cards: not one of higher priority":      {4, 50, nil, ""},
		"four cards for the highest":                  {4, 90, nil, "r-a r-b r-c r-d"},
		"an equal priority takes nothing":             {1, 20, nil, ""},
		"the quiet before those of less priority":     {1, 50, func(w *world) { w.Quiet["r-c"] = Quiet{For: time.Hour, Known: true} }, "r-c"},
		"a quiet one of higher priority is left":      {1, 50, func(w *world) { w.Quiet["r-d"] = Quiet{For: time.Hour, Known: true} }, "r-a"},
		"never a pinned one":                          {1, 50, func(w *world) { w.modelNamed("a").Spec.Pin = true }, "r-b"},
		"one that has not loaded before one that has": {1, 50, func(w *world) { w.replica("r-b").State = fleet.Starting }, "r-b"},
		"nothing when it would not do":                {3, 50, func(w *world) { w.modelNamed("c").Spec.Pin = true }, ""},
		"nothing while the leader doubts itself":      {1, 50, func(w *world) { w.Braked = true }, ""},
		"nothing while frozen":                        {1, 50, func(w *world) { w.Frozen = true }, ""},
	} {
		t.Run(what, func(t *testing.T) {
			w := crowded(t)
			w.model("m", 1, c.gpus, h100, priority(c.priority))
			if c.change != nil {
				c.change(w)
			}
			plan := Plan(w.Snapshot)
			checkPlan(t, w.Snapshot, plan)
			got := stops(plan)
			slices.Sort(got)
			if strings.Join(got, " ") != c.goes {
				t.Errorf("%q goes, want %q", got, c.goes)
			}
			if refused := refusal(plan, "m").Model != ""; refused != (c.goes == "") {
				t.Errorf("refused: %v: %+v", refused, plan.Refusals)
			}
		})
	}
}

// What is drained for a model is used by it: nobody settles on the first card that comes free, and nothing more is taken while it waits for the second.
func TestPreemptedRoomIsKept(t *testing.T) {
	w := crowded(t)
	w.model("m", 1, 2, h100, priority(50))
	w.step()
	w.model("small", 1, 1, h100, priority(10))
	w.Replicas = slices.DeleteFunc(w.Replicas, func(r *fleet.Replica) bool { return r.ID == "r-a" })
	if plan := w.step(); len(plan.Items) != 0 {
		t.Fatalf("while a card is still held, want nothing, got %+v", plan.Items)
	}
	w.finish()
	w.step()
	if got := w.nodesOf("m"); len(got) != 1 {
		t.Errorf("m runs on %v", got)
	}
	if got := w.nodesOf("small"); len(got) != 0 {
		t.Errorf("small settled on %v", got)
	}
}

// A gang takes the fabric in which least is lost, and only there.
func TestAGangPreemptsInOneFabric(t *testing.T) {
	w := newWorld(t)
	for _, n := range []string{"a1", "a2"} {
		w.node(n, "fa", h100, 2)
	}
	for _, n := range []string{"b1", "b2"} {
		w.node(n, "fb", h100, 2)
	}
	w.model("low", 1, 1, h100, priority(10), replicas(4))
	w.put("r-1", "low", "a1", 0, 1)
	w.put("r-2", "low", "a1", 1, 1)
	w.put("r-3", "low", "a2", 0, 1)
	w.put("r-4", "low", "b2", 0, 1)
	w.model("high", 1, 1, h100, priority(90))
	w.put("r-5", "high", "b1", 0, 1)
	w.model("gang", 2, 2, h100, priority(50))
	plan := w.step()
	got := stops(plan)
	slices.Sort(got)
	if strings.Join(got, " ") != "r-1 r-2 r-3" {
		t.Fatalf("%v goes, want what is in the fabric fa: r-1 r-2 r-3; %+v", got, plan)
	}
	w.finish()
	w.step()
	if got := w.nodesOf("gang"); !slices.Equal(got, []string{"a1", "a2"}) {
		t.Errorf("gang runs on %v", got)
	}
}

// A gang that has waited long gets its fabric kept, so that small models that come and go do not starve it; before that time, and where there is other
// room, nobody is held up.
func TestABigGangDoesNotStarve(t *testing.T) {
	w := newWorld(t)
	for _, n := range []string{"n1", "n2"} {
		w.node(n, "fa", h100, 2)
	}
	w.node("n3", "", h100, 1)
	w.model("old", 1, 1, h100)
	w.put("r-1", "old", "n1", 0, 1)
	w.model("gang", 2, 2, h100)
	for i, name := range []string{"s1", "s2", "s3"} {
		w.Waited = map[string]time.Duration{"gang": time.Duration(i) * reserveAfter}
		w.model(name, 1, 1, h100)
		w.step()
	}
	if got := len(w.nodesOf("s1")) + len(w.nodesOf("s2")); got != 2 {
		t.Errorf("before the time and beside the fabric, %d of 2 small models run", got)
	}
	if got := w.nodesOf("s3"); len(got) != 0 {
		t.Errorf("s3 settled on %v, which is kept", got)
	}
	if r := refusal(Plan(w.Snapshot), "s3"); !strings.Contains(r.Reason, "reserved for a model that has waited longer") {
		t.Errorf("s3 is told %q", r.Reason)
	}
	w.modelNamed("s3").Spec.Idle.UnloadAfter, w.modelNamed("s3").Spec.Replicas.Min = fleet.Duration(time.Minute), 0
	if plan := Plan(w.Snapshot); len(plan.Items) != 1 {
		t.Errorf("what ends sooner fills the gap, but the plan is %+v", plan.Items)
	}
	w.Waited["gang"] = reserveAfter + reserveFor
	w.modelNamed("s3").Spec.Replicas.Min = 1
	if plan := Plan(w.Snapshot); len(plan.Items) != 1 {
		t.Errorf("after its time the fabric is not kept, but the plan is %+v", plan.Items)
	}
}
