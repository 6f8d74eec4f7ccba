package scheduler

import (
	"fmt"
	"strings"
	"testing"

	"berth/fleet"
)

// respec makes a new generation of a model.
func respec(m *fleet.Model) { m.Generation++ }

func TestRolloutSurgesOneByOne(t *testing.T) {
	w := f0(t)
	m := w.model("m", 1, 2, h100, replicas(3))
	w.settle(nil)
	respec(m)
	w.settle(func() {
		if n := len(w.of("m", fleet.Ready)); n < 3 {
			t.Fatalf("%d ready replicas during a rollout with surge", n)
		}
		if n := len(w.of("m", fleet.Ready)) + len(w.of("m", fleet.Starting)); n > 4 {
			t.Fatalf("%d live replicas; surge is 1", n)
		}
	})
	allOfGeneration(t, w, "m", 2, 3)
}

// A rollout in a full fleet goes on whatever surge and unavailable say, and never takes more than one replica at a time.
func TestRolloutInFullFleet(t *testing.T) {
	for _, c := range []struct{ surge, unavailable int }{{1, 0}, {0, 1}, {2, 1}} {
		t.Run(fmt.Sprint(c), func(t *testing.T) {
			w := f0(t)
			m := w.model("m", 1, 8, h100, replicas(3), rollout(c.surge, c.unavailable))
			w.settle(nil)
			respec(m)
			w.settle(func() {
				if n := len(w.of("m", fleet.Ready)); n < 2 {
					t.Fatalf("%d of 3 replicas are ready", n)
				}
			})
			allOfGeneration(t, w, "m", 2, 3)
		})
	}
}

func TestRolloutOfGangWithoutSurge(t *testing.T) {
	w := f0(t)
	m := w.model("g", 2, 8, h100, rollout(0, 1))
	w.settle(nil)
	respec(m)
	first := w.step()
	if len(first.Items) != 1 || first.Items[0].Stop == nil {
		t.Fatalf("the old gang is to go first, got %+v", first.Items)
	}
	if second := w.step(); len(second.Items) != 0 {
		t.Fatalf("its cards are not proved empty, got %+v", second.Items)
	}
	w.finish()
	w.settle(nil)
	allOfGeneration(t, w, "g", 2, 1)
}

// Old replicas go one at a time even where more may be unavailable, and none goes after a new one has failed.
func TestRolloutDrainsOneAtATime(t *testing.T) {
	for _, surge := range []int{0, 1} {
		w := f0(t)
		m := w.model("m", 1, 8, h100, replicas(3), rollout(surge, 3))
		w.settle(nil)
		respec(m)
		w.step()
		for range 3 {
			if plan := w.step(); len(plan.Items)+len(plan.Refusals) != 0 || len(w.of("m", fleet.DrainingDown)) != 1 {
				t.Fatalf("surge %d: one is draining, so nothing more goes, and nothing is refused: %+v", surge, plan)
			}
		}
		w.finish()
		w.step()
		if plan := w.step(); len(plan.Items)+len(plan.Refusals) != 0 || len(w.of("m", fleet.Starting)) != 1 {
			t.Fatalf("surge %d: a new one is loading, so nothing more goes: %+v", surge, plan)
		}
		r := w.of("m", fleet.Starting)[0]
		r.State, r.Shards[0].Released = fleet.Failed, true
		w.step()
		w.start() // the second try runs, the row of the first has not gone yet
		if plan := w.step(); len(plan.Items) != 0 {
			t.Fatalf("surge %d: a new one has failed, so no old one goes: %+v", surge, plan.Items)
		}
	}
}

// Where another model has taken the room that a drained replica left, the rollout takes no more: it is short of one already.
func TestRolloutDoesNotShrinkAModelFurther(t *testing.T) {
	w := f0(t)
	m := w.model("m", 1, 8, h100, replicas(3))
	w.settle(nil)
	respec(m)
	w.step()
	w.finish()
	w.model("other", 1, 8, h100, func(s *fleet.ModelSpec) { s.Priority = 90 })
	plan := w.step()
	if len(plan.Items) != 1 || plan.Items[0].Place == nil || plan.Items[0].Place.Model != "other" || refusal(plan, "m").Short != 1 {
		t.Fatalf("plan %+v", plan)
	}
	if plan := w.step(); len(plan.Items) != 0 || len(w.of("m", fleet.Ready)) != 2 {
		t.Errorf("two of three are ready and none may go: %+v", plan.Items)
	}
}

// A generation of another shape needs the room of several old replicas at once.
func TestRolloutToLargerShape(t *testing.T) {
	w := newWorld(t)
	w.node("n1", "fa", h100, 8)
	m := w.model("m", 1, 4, h100, replicas(2))
	w.settle(nil)
	respec(m)
	m.Spec.Placement.GPUsPerNode = 8
	w.settle(nil)
	if got := w.of("m", fleet.Ready); len(got) != 1 || got[0].Generation != 2 {
		t.Errorf("want one replica of the new shape, got %+v", got)
	}
}

// A generation that fits nowhere takes nothing from the one that runs.
func TestRolloutThatNeverFitsKeepsTheOld(t *testing.T) {
	w := f0(t)
	m := w.model("m", 1, 8, h100, replicas(3))
	w.settle(nil)
	respec(m)
	m.Spec.Placement.GPUsPerNode = 16
	plan := w.step()
	if len(plan.Items) != 0 || !strings.Contains(refusal(plan, "m").Reason, "waiting: no free block of 16 x h100-80 for generation 2") {
		t.Errorf("plan %+v", plan)
	}
}

func TestFailingRolloutStops(t *testing.T) {
	for _, surge := range []int{0, 1} {
		w := f0(t)
		m := w.model("m", 1, 8, h100, replicas(2), rollout(surge, 1))
		w.settle(nil)
		respec(m)
		for range 20 {
			w.step()
			for _, r := range w.of("m", fleet.Starting) {
				r.State, r.Reason = fleet.Failed, "bad weights"
				r.Shards[0].Released = true
			}
			w.finish()
		}
		plan := w.step()
		if len(plan.Items) != 0 || len(w.of("m", fleet.Ready)) != 1+surge || len(w.of("m", fleet.Failed)) != maxFailures {
			t.Errorf("surge %d: plan %+v, %d ready, %d failed", surge, plan.Items, len(w.of("m", fleet.Ready)), len(w.of("m", fleet.Failed)))
		}
		if r := refusal(plan, "m"); !strings.Contains(r.Reason, "rollout of generation 2 stopped") || !strings.Contains(r.Reason, "bad weights") {
			t.Errorf("surge %d: refusal %+v", surge, r)
		}
		respec(m) // the next generation is good
		w.settle(nil)
		allOfGeneration(t, w, "m", 3, 2)
	}
}

// An old generation that cannot run costs nothing to stop.
func TestRolloutReplacesBrokenOldFirst(t *testing.T) {
	w := f0(t)
	m := w.model("m", 1, 8, h100, replicas(3))
	w.settle(nil)
	for _, r := range w.of("m", fleet.Ready)[1:] {
		r.State = fleet.Starting
	}
	respec(m)
	plan := w.step()
	if len(plan.Items) != 1 || plan.Items[0].Stop == nil || w.replica(plan.Items[0].Stop.Replica).State != fleet.DrainingDown {
		t.Fatalf("plan %+v", plan.Items)
	}
	if n := len(w.of("m", fleet.Ready)); n != 1 {
		t.Errorf("%d ready replicas are left of one; a starting one had to go", n)
	}
}

func TestScaleDownOrder(t *testing.T) {
	w := f0(t)
	m := w.model("m", 1, 1, h100, replicas(4))
	w.settle(nil)
	reps := w.of("m", fleet.Ready)
	reps[1].State = fleet.Starting
	w.Now += 1000
	reps[3].CreatedAt = w.Now
	for i, want := range []string{reps[1].ID, reps[3].ID, reps[2].ID, reps[0].ID} {
		m.Want = 3 - i
		plan := w.step()
		if len(plan.Items) != 1 || plan.Items[0].Stop.Replica != want {
			t.Fatalf("at %d wanted: %+v, want a stop of %s", m.Want, plan.Items, want)
		}
	}
}

func TestScaleDownTakesLostReplicasAlong(t *testing.T) {
	w := f0(t)
	m := w.model("m", 1, 8, h100, replicas(3))
	w.settle(nil)
	w.nodeNamed("n1").Unreachable = true
	m.Want = 2
	if plan := w.step(); len(plan.Items) != 0 {
		t.Fatalf("two of two are left, and the lost one may come back: %+v", plan.Items)
	}
	m.Want = 1
	plan := w.step()
	if len(plan.Items) != 2 || len(w.of("m", fleet.Ready)) != 1 || w.of("m", fleet.Ready)[0].Shards[0].Node == "n1" {
		t.Fatalf("the lost one and one more are to go: %+v", plan.Items)
	}
}

func TestLostReplicaIsReplacedAndSurplusDrained(t *testing.T) {
	w := f0(t)
	w.model("m", 1, 8, h100)
	w.settle(nil)
	old := w.of("m", fleet.Ready)[0]
	home := w.nodeNamed(old.Shards[0].Node)
	home.Unreachable = true

	w.Braked = true
	if plan := w.step(); len(plan.Items) != 0 {
		t.Fatalf("under the brake nothing is replaced, got %+v", plan.Items)
	}
	w.Braked = false
	w.step()
	if got := w.of("m", fleet.Starting); len(got) != 1 {
		t.Fatalf("no replacement for a lost replica: %+v", w.Replicas)
	}
	// It returns while the replacement loads: it is adopted.
	home.Unreachable, home.RegisteredAt = false, w.Now+1
	plan := Plan(w.Snapshot)
	if len(plan.Items) != 1 || plan.Items[0].Stop.Replica == old.ID {
		t.Fatalf("the replacement is not ready, so it is to go: %+v", plan.Items)
	}
	// It returns when the replacement is ready: it is drained.
	w.start()
	plan = Plan(w.Snapshot)
	if len(plan.Items) != 1 || plan.Items[0].Stop.Replica != old.ID {
		t.Fatalf("the replacement is ready, so the one that returned is to go: %+v", plan.Items)
	}
}

func TestDeletedModelStopsEverywhere(t *testing.T) {
	w := f0(t)
	m := w.model("m", 1, 8, h100, replicas(3))
	w.settle(nil)
	w.nodeNamed("n1").Unreachable = true
	w.Replicas[2].State, w.Replicas[2].Drain = fleet.DrainingDown, &fleet.Drain{Mark: &fleet.Mark{}}
	m.Deleting = true
	if plan := w.step(); len(plan.Items) != 3 {
		t.Errorf("all three are to stop, the lost and the conditionally draining one too: %+v", plan.Items)
	}
	if plan := w.step(); len(plan.Items) != 0 {
		t.Errorf("they are stopped twice: %+v", plan.Items)
	}
}

func TestDemandWakesOne(t *testing.T) {
	w := f0(t)
	m := w.model("m", 1, 8, h100, replicas(0))
	if plan := w.step(); len(plan.Items) != 0 || len(plan.Refusals) != 0 {
		t.Fatalf("nobody asks: %+v", plan)
	}
	w.Demand["m"] = Waiting{Requests: 3}
	plan := w.step()
	if len(plan.Items) != 2 || plan.Items[0].Wake == nil || plan.Items[1].Place == nil || m.Want != 1 {
		t.Fatalf("want a wake and then a placement: %+v", plan.Items)
	}
	w.start()
	delete(w.Demand, "m")
	if plan := w.step(); len(plan.Items) != 0 {
		t.Errorf("it stays at one: %+v", plan.Items)
	}
}

func TestFrozenFleetExplainsOnly(t *testing.T) {
	w := f0(t)
	w.model("fits", 1, 8, h100)
	w.model("big", 1, 16, h100)
	w.Frozen = true
	plan := w.step()
	if len(plan.Items) != 0 || !strings.Contains(refusal(plan, "fits").Reason, "frozen") || !strings.Contains(refusal(plan, "big").Reason, "largest free block 8") {
		t.Errorf("plan %+v", plan)
	}
}

func TestGangStartsAgainTogether(t *testing.T) {
	w := f0(t)
	w.model("g", 2, 8, h100, func(s *fleet.ModelSpec) { s.Start.MaxRestarts = 2 })
	w.settle(nil)
	g := w.of("g", fleet.Ready)[0]
	for restart := range 2 {
		g.Shards[1].Exit = &fleet.Exit{Code: 134}
		w.Backoff.Restarts[g.ID] = Hold{For: 1}
		if plan := w.step(); len(plan.Items) != 0 {
			t.Fatalf("it is to wait: %+v", plan.Items)
		}
		delete(w.Backoff.Restarts, g.ID)
		plan := w.step()
		if len(plan.Items) != 1 || plan.Items[0].Restart == nil || plan.Items[0].Restart.Start != uint64(restart+2) {
			t.Fatalf("restart %d: %+v", restart, plan.Items)
		}
	}
	g.Shards[1].Exit = &fleet.Exit{Code: -1, Signal: "SIGKILL"}
	plan := w.step()
	if len(plan.Items) != 1 || plan.Items[0].Stop == nil || plan.Items[0].Stop.Failed != "rank 1 on n2 was ended by SIGKILL; given up after 2 restarts in a row" {
		t.Fatalf("it is to be given up: %+v", plan.Items[0].Stop)
	}
}

// A shim starts the engine of a single node again by itself; the planner only ends what never comes up.
func TestSingleNodeIsGivenUp(t *testing.T) {
	w := f0(t)
	w.model("m", 1, 8, h100, func(s *fleet.ModelSpec) { s.Start.MaxRestarts = 3 })
	w.step()
	r := w.Replicas[0]
	r.Restarts, r.Shards[0].Exit = 3, &fleet.Exit{Code: 2}
	if plan := w.step(); len(plan.Items) != 0 {
		t.Fatalf("three restarts are allowed: %+v", plan.Items)
	}
	r.Restarts = 4
	plan := w.step()
	if len(plan.Items) != 1 || plan.Items[0].Stop == nil || plan.Items[0].Stop.Failed != "rank 0 on "+r.Shards[0].Node+" exited with code 2; given up after 4 restarts in a row" {
		t.Fatalf("it is to be given up: %+v", plan.Items)
	}
}

func allOfGeneration(t *testing.T, w *world, model string, generation uint64, count int) {
	t.Helper()
	got := w.of(model, fleet.Ready)
	for _, r := range got {
		if r.Generation != generation {
			t.Errorf("%s is of generation %d", r.ID, r.Generation)
		}
	}
	if len(got) != count || len(w.Replicas) < count {
		t.Errorf("%d ready replicas of %s, want %d", len(got), model, count)
	}
}
