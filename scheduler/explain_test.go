package scheduler

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"berth/fleet"
)

func TestWouldHelp(t *testing.T) {
	quiet := func(w *world, id string, d time.Duration) { w.Quiet[id] = Quiet{For: d, Known: true} }
	full := func(t *testing.T) *world {
		w := newWorld(t)
		w.node("n1", "fa", h100, 8)
		w.node("n2", "fa", h100, 8)
		w.model("old", 1, 8, h100, replicas(2))
		w.put("r-1", "old", "n1", 0, 8)
		w.put("r-2", "old", "n2", 0, 8)
		return w
	}
	for name, c := range map[string]struct {
		change func(w *world)
		nodes  int
		want   string
	}{
		"the longest quiet":      {func(w *world) { quiet(w, "r-1", hours(1)); quiet(w, "r-2", hours(3)) }, 1, "stop r-2 of old (quiet 3h)"},
		"unknown is not quiet":   {func(w *world) { w.Quiet["r-1"] = Quiet{For: hours(9)} }, 1, "stop r-1 of old (in use, priority 50)"},
		"quiet for too short":    {func(w *world) { quiet(w, "r-2", time.Minute) }, 1, "stop r-2 of old (quiet 1m)"},
		"never a pinned model":   {func(w *world) { quiet(w, "r-1", hours(1)); w.Models[1].Spec.Pin = true }, 1, ""},
		"two for a gang":         {func(w *world) { quiet(w, "r-1", hours(50)); quiet(w, "r-2", 20*time.Minute) }, 2, "stop r-1 of old (quiet 2d) and r-2 of old (quiet 20m)"},
		"one alone helps nobody": {func(w *world) { quiet(w, "r-1", hours(1)) }, 2, "stop r-1 of old (quiet 1h) and r-2 of old (in use, priority 50)"},
		"uncordon rather than stop two": {func(w *world) {
			quiet(w, "r-1", hours(1))
			quiet(w, "r-2", hours(1))
			w.node("n3", "fb", h100, 8).Admin = fleet.Cordoned
			w.node("n4", "fb", h100, 8)
		}, 2, "uncordon n3"},
		"not a cordoned node that cannot help": {func(w *world) { w.node("n3", "fb", h100, 4).Admin = fleet.Cordoned }, 1, "stop r-1 of old (in use, priority 50)"},
		"move rather than stop what is in use": {func(w *world) {
			w.node("n3", "fb", h100, 7)
			w.model("small", 1, 7, h100)
			w.node("n4", "", h100, 8)
			w.put("r-3", "small", "n4", 0, 7)
		}, 1, "move r-3 of small (in use, priority 50)"},
	} {
		t.Run(name, func(t *testing.T) {
			w := full(t)
			w.model("m", c.nodes, 8, h100)
			c.change(w)
			if got := refusal(Plan(w.Snapshot), "m").WouldHelp; got != c.want {
				t.Errorf("would help: %q, want %q", got, c.want)
			}
		})
	}
}

// Of many quiet replicas only those are named that the room needs: not the longest quiet one, which sits where it does not help.
func TestWouldHelpNamesNoMoreThanNeeded(t *testing.T) {
	w := newWorld(t)
	w.node("n1", "fa", h100, 4)
	w.node("n2", "fa", h100, 8)
	w.model("old", 1, 4, h100, replicas(3))
	w.put("r-1", "old", "n1", 0, 4)
	w.put("r-2", "old", "n2", 0, 4)
	w.put("r-3", "old", "n2", 4, 4)
	w.model("m", 1, 8, h100)
	for i, id := range []string{"r-1", "r-2", "r-3"} {
		w.Quiet[id] = Quiet{For: hours(9 - i), Known: true}
	}
	if got := refusal(Plan(w.Snapshot), "m").WouldHelp; got != "stop r-2 of old (quiet 8h) and r-3 of old (quiet 7h)" {
		t.Errorf("would help: %q", got)
	}
}

func TestFits(t *testing.T) {
	w := f0(t)
	w.nodeNamed("n1").Admin = fleet.Cordoned
	w.nodeNamed("n2").Unreachable = true
	w.put("r-1", "x", "n3", 0, 8)
	spec := func(nodes, gpus int, class string, adjust ...func(*fleet.ModelSpec)) fleet.ModelSpec {
		return newWorld(t).model("m", nodes, gpus, class, adjust...).Spec
	}
	for name, c := range map[string]struct {
		spec fleet.ModelSpec
		hint string
	}{
		"whatever the state of nodes": {spec(2, 8, h100), ""},
		"more nodes":                  {spec(1, 16, h100), "nodes: 2 with gpus_per_node: 8 would fit"},
		"another class":               {spec(1, 8, l40s), "classes: [h100-80] would fit"},
		"fewer GPUs":                  {spec(1, 17, h100), "gpus_per_node: 8 would fit"},
		"fewer nodes":                 {spec(3, 8, h100), "nodes: 2 would fit"},
		"a class nobody has":          {spec(1, 16, "b200"), "no node has that class; there are l40s-48, h100-80"},
		"less memory":                 {spec(1, 1, h100, func(s *fleet.ModelSpec) { s.Placement.GPUMemory = 100 * fleet.GiB }), "gpu_memory: 80GiB would fit"},
		"smaller share":               {spec(1, 0, l40s, func(s *fleet.ModelSpec) { s.Placement.GPUShare = 90 * fleet.GiB }), "gpu_share: 48GiB would fit"},
		"less of the host":            {spec(1, 1, h100, func(s *fleet.ModelSpec) { s.Placement.CPUs = 65 }), "fewer cpus or less memory would fit; the largest node has 64 and 512GiB"},
		"a label":                     {spec(1, 1, h100, func(s *fleet.ModelSpec) { s.Placement.Require = map[string]string{"zone": "a"} }), "it would fit without require: zone"},
		"version":                     {spec(1, 1, h100, func(s *fleet.ModelSpec) { s.Engine.Version = "<0.10" }), "it would fit with another version; nodes offer vllm 0.18.1"},
		"driver":                      {spec(1, 1, h100, func(s *fleet.ModelSpec) { s.Engine.Driver = "sglang" }), "no node offers sglang; nodes offer vllm"},
		"weights":                     {spec(1, 1, h100, func(s *fleet.ModelSpec) { s.Engine.Weights = "/srv/x" }), "no node that could hold it can have these weights, and none has a model root"},
	} {
		t.Run(name, func(t *testing.T) {
			err := Fits(c.spec, w.Nodes)
			if c.hint == "" {
				if err != nil {
					t.Errorf("it fits, but: %v", err)
				}
				return
			}
			var e *fleet.Error
			if !errors.As(err, &e) || e.Code != fleet.Unplaceable || e.Hint != c.hint {
				t.Errorf("got %v, want the hint %q", err, c.hint)
			}
		})
	}
	if err := Fits(spec(64, 64, "none"), nil); err != nil {
		t.Errorf("a fleet without nodes refuses nothing: %v", err)
	}
}

func TestExplain(t *testing.T) {
	w := f0(t)
	w.model("m", 1, 8, h100)
	w.put("r-1", "m", "n1", 0, 8)
	w.nodeNamed("n2").Admin = fleet.Cordoned
	e, ok := Explain(w.Snapshot, "m")
	if !ok || e.Ready != 1 || e.Want != 1 || e.Refusal != nil || len(e.Place) != 1 || e.Place[0].Node != "n3" {
		t.Fatalf("%+v", e)
	}
	want := []Verdict{{"c1", "", "without GPUs"}, {"n1", "", "h100-80 busy"}, {"n2", "", "cordoned"}, {"n3", "", ""}, {"n4", "", "without h100-80"}}
	if !slices.Equal(e.Nodes, want) {
		t.Errorf("got %+v\nwant %+v", e.Nodes, want)
	}
	w.model("big", 1, 16, h100)
	if e, _ := Explain(w.Snapshot, "big"); e.Refusal == nil || e.Refusal.Short != 1 || e.Place != nil {
		t.Errorf("%+v", e)
	}
	if _, ok := Explain(w.Snapshot, "nobody"); ok {
		t.Error("explained a model that is not there")
	}
}

func TestExplainNode(t *testing.T) {
	w := f0(t)
	w.model("m", 1, 2, h100)
	w.put("r-1", "m", "n1", 0, 2)
	n := w.nodeNamed("n1")
	n.Inventory.GPUs[2].Health, n.Inventory.GPUs[2].Reason = fleet.Unhealthy, "xid 94"
	n.Inventory.GPUs[3].Foreign = true
	e, ok := ExplainNode(w.Snapshot, "n1")
	if !ok || len(e.Cards) != 8 || e.Models[0] != (Verdict{Model: "m"}) {
		t.Fatalf("%+v", e)
	}
	for i, want := range []string{"held by r-1 of m", "held by r-1 of m", "unhealthy: xid 94", "held by something", ""} {
		if got := e.Cards[i].Reason; !strings.HasPrefix(got, want) || want == "" && got != "" {
			t.Errorf("card %d: %q, want %q", i, got, want)
		}
	}
}

func TestEndedDrains(t *testing.T) {
	w := f0(t)
	r := w.put("r-1", "m", "n1", 0, 8)
	for _, name := range []string{"n1", "n2"} {
		n := w.nodeNamed(name)
		n.Admin, n.Drain = fleet.Draining, &fleet.NodeDrain{State: "running", StartAt: w.Now, Deadline: fleet.Duration(time.Minute)}
	}
	says := func(want ...string) {
		t.Helper()
		var got []string
		for _, e := range EndedDrains(w.Snapshot) {
			got = append(got, e.String())
		}
		if !slices.Equal(got, want) {
			t.Errorf("got %q, want %q", got, want)
		}
	}
	says("drain of n2: done")
	w.Now += 60_000
	says("drain of n1: timed_out, left: r-1", "drain of n2: done")
	r.Shards[0].Released = true
	says("drain of n1: done", "drain of n2: done")
}
