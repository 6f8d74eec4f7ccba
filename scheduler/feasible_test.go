package scheduler

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"berth/fleet"
)

// What keeps a model off the only node, and the words for it. Without the change each of them is placed.
func TestWhatIsNotFeasible(t *testing.T) {
	type change func(n *fleet.Node, s *fleet.ModelSpec, w *world)
	gpus := func(f func(*fleet.GPU)) change {
		return func(n *fleet.Node, _ *fleet.ModelSpec, _ *world) {
			for i := range n.Inventory.GPUs {
				f(&n.Inventory.GPUs[i])
			}
		}
	}
	for want, f := range map[string]change{
		"1 cordoned": func(n *fleet.Node, _ *fleet.ModelSpec, _ *world) { n.Admin = fleet.Cordoned },
		"1 draining": func(n *fleet.Node, _ *fleet.ModelSpec, _ *world) { n.Admin = fleet.Draining },
		"1 not registered again since the restore": func(n *fleet.Node, _ *fleet.ModelSpec, _ *world) { n.Instance = 0 },
		"1 unreachable": func(n *fleet.Node, _ *fleet.ModelSpec, _ *world) { n.Unreachable = true },
		"1 without label zone=a": func(_ *fleet.Node, s *fleet.ModelSpec, _ *world) {
			s.Placement.Require = map[string]string{"zone": "a"}
		},
		"1 without sglang":                  func(_ *fleet.Node, s *fleet.ModelSpec, _ *world) { s.Engine.Driver = "sglang" },
		"1 without vllm >=0.19":             func(_ *fleet.Node, s *fleet.ModelSpec, _ *world) { s.Engine.Version = ">=0.19" },
		"1 that may not fetch from the hub": func(n *fleet.Node, _ *fleet.ModelSpec, _ *world) { n.Engines[0].Hub = false },
		"1 without a model root for /srv/m": func(_ *fleet.Node, s *fleet.ModelSpec, _ *world) { s.Engine.Weights = "/srv/m" },
		"1 that do not allow vllm --exec": func(n *fleet.Node, s *fleet.ModelSpec, _ *world) {
			n.Engines[0].AllowArgs, s.Engine.Args = []string{"--a"}, []string{"--a=1", "--exec", "x"}
		},
		"1 with fewer than 65 CPUs":              func(_ *fleet.Node, s *fleet.ModelSpec, _ *world) { s.Placement.CPUs = 65 },
		"1 with less than 513GiB host memory":    func(_ *fleet.Node, s *fleet.ModelSpec, _ *world) { s.Placement.Memory = 513 * fleet.GiB },
		"1 whose h100-80 have less than 81GiB":   func(_ *fleet.Node, s *fleet.ModelSpec, _ *world) { s.Placement.GPUMemory = 81 * fleet.GiB },
		"1 without l40s-48":                      func(_ *fleet.Node, s *fleet.ModelSpec, _ *world) { s.Placement.Classes = []string{l40s} },
		"1 with only 2 x h100-80":                func(_ *fleet.Node, s *fleet.ModelSpec, _ *world) { s.Placement.GPUsPerNode = 3 },
		"1 x h100-80 unhealthy":                  gpus(func(g *fleet.GPU) { g.Health = fleet.HealthUnknown }),
		"1 set aside after failures":             func(_ *fleet.Node, _ *fleet.ModelSpec, w *world) { w.Backoff.Nodes["n1"] = Hold{For: time.Second} },
		"1 in back-off after this model":         func(_ *fleet.Node, _ *fleet.ModelSpec, w *world) { w.Backoff.Pairs[Pair{"m", "n1"}] = Hold{For: 1} },
		"backing off for 8s":                     func(_ *fleet.Node, _ *fleet.ModelSpec, w *world) { w.Backoff.Models["m"] = Hold{For: 8 * time.Second} },
		"1 x h100-80 held by what Berth did not": gpus(func(g *fleet.GPU) { g.Foreign = true }),
		"0; 1 node: 1 x h100-80 held by what": func(n *fleet.Node, _ *fleet.ModelSpec, _ *world) {
			n.Unmanaged = []fleet.Unmanaged{{GPUs: []string{n.Inventory.GPUs[0].UUID, n.Inventory.GPUs[1].UUID}}}
		},
	} {
		t.Run(want, func(t *testing.T) {
			w := newWorld(t)
			n := w.node("n1", "fa", h100, 2)
			m := w.model("m", 1, 1, h100)
			if len(Plan(w.Snapshot).Items) != 1 {
				t.Fatal("it is not placed even without the change")
			}
			f(n, &m.Spec, w)
			plan := w.step()
			if r := refusal(plan, "m"); len(plan.Items) != 0 || !strings.Contains(r.Reason, want) {
				t.Errorf("items %+v, reason %q, want %q", plan.Items, r.Reason, want)
			}
		})
	}
}

func TestCPUsAndMemoryAreCounted(t *testing.T) {
	for want, f := range map[string]func(*fleet.ModelSpec){
		"1 short of 40 CPUs":            func(s *fleet.ModelSpec) { s.Placement.CPUs = 40 },
		"1 short of 300GiB host memory": func(s *fleet.ModelSpec) { s.Placement.Memory = 300 * fleet.GiB },
	} {
		w := newWorld(t)
		w.node("n1", "fa", h100, 8)
		w.model("m", 1, 1, h100, replicas(2), f)
		plan := w.step()
		if r := refusal(plan, "m"); len(plan.Items) != 1 || r.Short != 1 || !strings.Contains(r.Reason, want) {
			t.Errorf("plan %+v, want one placement and %q", plan, want)
		}
	}
}

func TestEngineMustSpanNodes(t *testing.T) {
	w := f0(t)
	w.nodeNamed("n2").Engines[0].SpanNodes = false
	w.model("g", 2, 8, h100)
	if r := refusal(w.step(), "g"); !strings.Contains(r.Reason, "1 whose vllm cannot span nodes") {
		t.Errorf("refusal %q", r.Reason)
	}
}

func TestPathUnderModelRoot(t *testing.T) {
	for path, ok := range map[string]bool{"/srv/models/a": true, "/srv/models-other/a": false, "/srv/models": false, "/srv/models//b/../a": true} {
		w := newWorld(t)
		w.node("n1", "fa", h100, 1).ModelRoots = []string{"/srv/models/"}
		m := w.model("m", 1, 1, h100)
		m.Spec.Engine.Weights = path
		if got := len(w.step().Items) == 1; got != ok {
			t.Errorf("%s: placed %v, want %v", path, got, ok)
		}
	}
}

// Small models share cards up to their memory, never beside a whole-card claim.
func TestSharesPackCards(t *testing.T) {
	w := newWorld(t)
	w.node("n1", "fa", l40s, 2)
	share := func(size fleet.Bytes) func(*fleet.ModelSpec) {
		return func(s *fleet.ModelSpec) { s.Placement.GPUsPerNode, s.Placement.GPUShare = 0, size }
	}
	w.model("a", 1, 0, l40s, share(20*fleet.GiB), replicas(2))
	w.step()
	w.model("whole", 1, 1, l40s)
	w.step()
	w.model("b", 1, 0, l40s, share(8*fleet.GiB), replicas(2))
	plan := w.step()
	if got := claimsOf(w, "a"); !slices.Equal(got, []string{"n1-l40s-48-0", "n1-l40s-48-0"}) {
		t.Errorf("a claims %v, want one card twice", got)
	}
	if got := claimsOf(w, "whole"); !slices.Equal(got, []string{"n1-l40s-48-1"}) {
		t.Errorf("whole claims %v", got)
	}
	if got := claimsOf(w, "b"); !slices.Equal(got, []string{"n1-l40s-48-0"}) {
		t.Errorf("b claims %v, want what is left of the shared card", got)
	}
	if r := refusal(plan, "b"); r.Short != 1 || !strings.Contains(r.Reason, "needs 8GiB of a l40s-48, largest free part 0B") {
		t.Errorf("refusal %+v", r)
	}
}

func claimsOf(w *world, model string) []string {
	var out []string
	for _, r := range w.Replicas {
		for _, s := range r.Shards {
			for _, c := range s.Claims {
				if r.Model == model {
					out = append(out, c.GPU)
				}
			}
		}
	}
	return out
}

func TestOrderOfPreference(t *testing.T) {
	classes := func(s *fleet.ModelSpec) { s.Placement.Classes = []string{l40s, h100} }
	for name, c := range map[string]struct {
		build func(w *world)
		want  []string
	}{
		"classes in order, then the next": {func(w *world) {
			w.node("n1", "fa", h100, 8)
			w.node("n2", "fa", l40s, 1)
			w.model("m", 1, 1, "", replicas(2), classes)
		}, []string{"n2", "n1"}},
		"any class: the smallest that will do": {func(w *world) {
			w.node("n1", "fa", h100, 8)
			w.node("n2", "fa", l40s, 8)
			w.model("m", 1, 1, "")
		}, []string{"n2"}},
		"the tightest node": {func(w *world) {
			w.node("n1", "fa", h100, 8)
			w.node("n2", "fa", h100, 8)
			w.put("r-0", "gone", "n2", 0, 6)
			w.model("m", 1, 1, h100, replicas(2))
		}, []string{"n2", "n2"}},
		"a node already broken into, even a roomier one": {func(w *world) {
			w.node("n1", "fa", h100, 1)
			w.node("n2", "fa", h100, 8)
			w.put("r-0", "gone", "n2", 0, 1)
			w.model("m", 1, 1, h100)
		}, []string{"n2"}},
		"the smaller of two whole nodes": {func(w *world) {
			w.node("n1", "fa", h100, 8)
			w.node("n2", "fa", h100, 4)
			w.model("m", 1, 4, h100)
		}, []string{"n2"}},
		"the fabric with the fewest whole nodes": {func(w *world) {
			w.node("n1", "fa", h100, 8)
			w.node("n2", "fa", h100, 8)
			w.node("n3", "fb", h100, 8)
			w.model("m", 1, 8, h100)
		}, []string{"n3"}},
		"a node that no gang can use": {func(w *world) {
			w.node("n1", "fa", h100, 8)
			w.node("n2", "", h100, 8)
			w.model("m", 1, 1, h100)
		}, []string{"n2"}},
		"a preferred label before tightness": {func(w *world) {
			w.node("n1", "fa", h100, 8)
			w.node("n2", "fa", h100, 8).Labels = map[string]string{"tier": "serving"}
			w.put("r-0", "gone", "n1", 0, 6)
			w.model("m", 1, 1, h100, func(s *fleet.ModelSpec) { s.Placement.Prefer = map[string]string{"tier": "serving"} })
		}, []string{"n2"}},
		"spread over racks before tightness": {func(w *world) {
			for i, rack := range []string{"a", "a", "b"} {
				w.node(fmt.Sprint("n", i+1), "fa", h100, 8).Labels = map[string]string{"rack": rack}
			}
			w.model("m", 1, 1, h100, replicas(3), func(s *fleet.ModelSpec) { s.Placement.Spread = []string{"node", "rack"} })
		}, []string{"n1", "n3", "n2"}},
		"a gang in the fabric with fewest to spare, ranks by name": {func(w *world) {
			for i, fabric := range []string{"fa", "fb", "fa", "fb", "fa"} {
				w.node(fmt.Sprint("n", i+1), fabric, h100, 8)
			}
			w.model("m", 2, 8, h100)
		}, []string{"n2", "n4"}},
		"a gang where labels are preferred": {func(w *world) {
			for i, fabric := range []string{"fa", "fb", "fa", "fb", "fa"} {
				w.node(fmt.Sprint("n", i+1), fabric, h100, 8)
			}
			w.nodeNamed("n5").Labels = map[string]string{"rack": "r4"}
			w.model("m", 2, 8, h100, func(s *fleet.ModelSpec) { s.Placement.Prefer = map[string]string{"rack": "r4"} })
		}, []string{"n1", "n5"}},
		"priority before age": {func(w *world) {
			w.node("n1", "fa", h100, 1)
			w.model("old", 1, 1, h100)
			w.model("m", 1, 1, h100, func(s *fleet.ModelSpec) { s.Priority = 80 })
		}, []string{"n1"}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			c.build(w)
			w.step()
			if got := w.nodesOf("m"); !slices.Equal(got, c.want) {
				t.Errorf("placed on %v, want %v", got, c.want)
			}
		})
	}
}
