package scheduler

import (
	"strings"
	"testing"
	"time"

	"berth/fleet"
)

func unloads(after time.Duration) func(*fleet.ModelSpec) {
	return func(s *fleet.ModelSpec) {
		s.Replicas = fleet.ReplicaCount{Min: 0, Max: 4}
		s.Idle = fleet.IdleSpec{UnloadAfter: fleet.Duration(after), MinResidence: fleet.Duration(time.Minute)}
	}
}

// quietWorld has one replica of one model that unloads after 10 m, and has been quiet for that long.
func quietWorld(t *testing.T, adjust ...func(*fleet.ModelSpec)) (*world, *fleet.Replica) {
	w := f0(t)
	w.model("m", 1, 2, h100, append([]func(*fleet.ModelSpec){unloads(10 * time.Minute)}, adjust...)...).Want = 1
	r := w.put("r-1", "m", "n1", 0, 2)
	w.Now += 3_600_000
	w.Quiet["r-1"] = Quiet{For: 10 * time.Minute, Known: true, Mark: fleet.Mark{Shim: 3, Engine: 2, Admissions: 7}}
	return w, r
}

func TestAQuietReplicaIsUnloadedWithTheMarkOfItsReading(t *testing.T) {
	w, _ := quietWorld(t, func(s *fleet.ModelSpec) { s.Pin = true }) // its own unload_after holds under a pin
	plan := w.step()
	if len(plan.Items) != 1 || plan.Items[0].Stop == nil {
		t.Fatalf("want one stop, got %+v", plan.Items)
	}
	stop := plan.Items[0].Stop
	if stop.Mark == nil || *stop.Mark != (fleet.Mark{Shim: 3, Engine: 2, Admissions: 7}) || stop.Want == nil || *stop.Want != 0 {
		t.Errorf("the stop %+v carries the mark %v and the wanted number %v", stop, stop.Mark, stop.Want)
	}
	if again := w.step(); len(again.Items) != 0 {
		t.Errorf("while it drains nothing is to be done, got %+v", again.Items)
	}
	w.finish()
	if again := w.step(); len(again.Items) != 0 || len(again.Refusals) != 0 {
		t.Errorf("at zero and unasked for, nothing is to be done, got %+v", again)
	}
}

func TestWhatIsNotUnloaded(t *testing.T) {
	for what, change := range map[string]func(*world, *fleet.Replica){
		"quiet for a second less": func(w *world, _ *fleet.Replica) {
			w.Quiet["r-1"] = Quiet{For: 10*time.Minute - time.Second, Known: true}
		},
		"unknown":               func(w *world, _ *fleet.Replica) { delete(w.Quiet, "r-1") },
		"a length not known":    func(w *world, _ *fleet.Replica) { w.Quiet["r-1"] = Quiet{For: time.Hour} },
		"within min_residence":  func(w *world, r *fleet.Replica) { r.StateAt = w.Now - 59_000 },
		"not ready":             func(w *world, r *fleet.Replica) { r.State = fleet.Starting },
		"requests wait":         func(w *world, _ *fleet.Replica) { w.Demand["m"] = Waiting{Requests: 1} },
		"frozen":                func(w *world, _ *fleet.Replica) { w.Frozen = true },
		"braked":                func(w *world, _ *fleet.Replica) { w.Braked = true },
		"no unload_after":       func(w *world, _ *fleet.Replica) { w.modelNamed("m").Spec.Idle.UnloadAfter = 0 },
		"as few as it wants":    func(w *world, _ *fleet.Replica) { w.modelNamed("m").Spec.Replicas.Min = 1 },
		"an older generation's": func(w *world, _ *fleet.Replica) { w.modelNamed("m").Generation = 2 },
	} {
		t.Run(what, func(t *testing.T) {
			w, r := quietWorld(t)
			change(w, r)
			for _, item := range Plan(w.Snapshot).Items {
				if item.Stop != nil {
					t.Errorf("it is stopped: %+v", item.Stop)
				}
			}
		})
	}
}

func TestUnloadingGoesDownToTheLeastNumberLongestQuietFirst(t *testing.T) {
	w := f0(t)
	w.model("m", 1, 1, h100, unloads(time.Minute)).Want = 3
	for i, id := range []string{"r-1", "r-2", "r-3"} {
		w.put(id, "m", "n1", i, 1)
		w.Quiet[id] = Quiet{For: time.Duration(i+2) * time.Minute, Known: true}
	}
	w.Quiet["r-1"] = Quiet{For: time.Second, Known: true}
	w.Now += 3_600_000
	plan := w.step()
	if len(plan.Items) != 2 || plan.Items[0].Stop.Replica != "r-3" || *plan.Items[0].Stop.Want != 2 || plan.Items[1].Stop.Replica != "r-2" || *plan.Items[1].Stop.Want != 1 {
		t.Fatalf("want r-3 and then r-2 to go, got %+v", plan.Items)
	}
}

// fullWorld has a single node of two cards, one replica each of "a" and "b", both quiet, and "w" at zero that somebody asks for.
func fullWorld(t *testing.T) *world {
	w := newWorld(t)
	w.node("n1", "fa", h100, 2)
	for i, name := range []string{"a", "b"} {
		w.model(name, 1, 1, h100, unloads(0)).Want = 1
		w.put("r-"+name, name, "n1", i, 1)
		w.Quiet["r-"+name] = Quiet{For: time.Duration(i+1) * time.Minute, Known: true, Mark: fleet.Mark{Shim: uint64(i + 1)}}
	}
	w.model("w", 1, 1, h100, unloads(0))
	w.Demand["w"] = Waiting{Requests: 1}
	w.Now += 3_600_000
	return w
}

func stops(plan fleet.Plan) []string {
	var out []string
	for _, item := range plan.Items {
		if item.Stop != nil {
			out = append(out, item.Stop.Replica)
		}
	}
	return out
}

func TestTheLongestQuietReplicaMakesRoomForAWokenModel(t *testing.T) {
	w := fullWorld(t)
	plan := w.step()
	if got := stops(plan); len(plan.Items) != 1 || len(got) != 1 || got[0] != "r-b" || plan.Items[0].Stop.Mark == nil || plan.Items[0].Stop.Mark.Shim != 2 {
		t.Fatalf("want r-b to go on the mark of its reading, got %+v", plan.Items)
	}
	if len(plan.Refusals) != 0 {
		t.Errorf("room is being made, and yet: %+v", plan.Refusals)
	}
	if again := w.step(); len(again.Items) != 0 || len(again.Refusals) != 0 {
		t.Fatalf("its cards are on their way, so nothing more is to go: %+v", again)
	}
	w.finish()
	if got := w.step(); len(got.Items) != 2 || got.Items[0].Wake == nil || got.Items[1].Place == nil {
		t.Fatalf("want w woken and placed, got %+v", got.Items)
	}
}

func TestWhatMakesNoRoom(t *testing.T) {
	for what, c := range map[string]struct {
		change func(*world)
		goes   string
	}{
		"a pinned model":            {func(w *world) { w.modelNamed("b").Spec.Pin = true }, "r-a"},
		"a higher priority":         {func(w *world) { w.modelNamed("b").Spec.Priority = 51 }, "r-a"},
		"the lowest priority first": {func(w *world) { w.modelNamed("a").Spec.Priority = 49 }, "r-a"},
		"the least that is wanted":  {func(w *world) { w.modelNamed("b").Spec.Replicas.Min = 1 }, "r-a"},
		"min_residence":             {func(w *world) { w.replica("r-b").StateAt = w.Now - 59_000 }, "r-a"},
		"in use":                    {func(w *world) { w.Quiet["r-b"] = Quiet{For: leastQuiet - 1, Known: true} }, "r-a"},
		"unknown":                   {func(w *world) { delete(w.Quiet, "r-b") }, "r-a"},
		"nothing at all": {func(w *world) {
			w.modelNamed("a").Spec.Pin, w.modelNamed("b").Spec.Pin = true, true
		}, ""},
		"frozen":        {func(w *world) { w.Frozen = true }, ""},
		"braked":        {func(w *world) { w.Braked = true }, ""},
		"nobody waits":  {func(w *world) { delete(w.Demand, "w") }, ""},
		"not its turn":  {func(w *world) { w.Backoff.Turns = map[string]Hold{"w": {For: time.Second}} }, ""},
		"too big a gap": {func(w *world) { w.modelNamed("w").Spec.Placement.GPUsPerNode = 3 }, ""},
	} {
		t.Run(what, func(t *testing.T) {
			w := fullWorld(t)
			c.change(w)
			plan := Plan(w.Snapshot)
			if got := strings.Join(stops(plan), " "); got != c.goes {
				t.Errorf("%q goes, want %q", got, c.goes)
			}
			if waits := w.Demand["w"].Requests > 0; c.goes == "" && waits != (len(plan.Refusals) == 1) {
				t.Errorf("somebody waits: %v; refusals %+v", waits, plan.Refusals)
			}
		})
	}
}

func TestTwoWokenModelsDoNotCountOnTheSameCards(t *testing.T) {
	w := fullWorld(t)
	w.model("x", 1, 1, h100, unloads(0))
	w.Demand["x"] = Waiting{Requests: 1}
	if got := strings.Join(stops(w.step()), " "); got != "r-b r-a" {
		t.Errorf("for two woken models %q goes", got)
	}
}

// Two models that do not fit together and never rest: the time between two evictions grows, and a model that made room does not take it back at once.
func TestTurnsKeepTwoModelsFromChasingEachOther(t *testing.T) {
	turns := NewTurns()
	w := fullWorld(t)
	at := time.Hour
	var waits []time.Duration
	for range 8 {
		turns.Note(at, w.Snapshot, []fleet.PlanItem{{Stop: &fleet.StopItem{Replica: "r-a", Mark: &fleet.Mark{}}}})
		h := turns.Holds(at)["a"]
		waits = append(waits, h.For)
		at += h.For
	}
	if waits[0] != firstTurn || waits[1] != 2*firstTurn || waits[7] != lastTurn {
		t.Errorf("the waits are %v", waits)
	}
	if h := turns.Holds(at + time.Second); len(h) != 0 {
		t.Errorf("still held: %v", h)
	}
	turns.Note(at+2*time.Hour, w.Snapshot, []fleet.PlanItem{{Stop: &fleet.StopItem{Replica: "r-a", Mark: &fleet.Mark{}}}})
	if h := turns.Holds(at + 2*time.Hour)["a"]; h.For != firstTurn {
		t.Errorf("after two hours without, the wait is %v", h.For)
	}
	w.modelNamed("a").Spec.Idle.UnloadAfter = fleet.Duration(time.Second)
	own := NewTurns()
	own.Note(at, w.Snapshot, []fleet.PlanItem{{Stop: &fleet.StopItem{Replica: "r-a", Mark: &fleet.Mark{}}}})
	if h := own.Holds(at); len(h) != 0 {
		t.Errorf("a model that its own unload_after has let go is held: %v", h)
	}
}
