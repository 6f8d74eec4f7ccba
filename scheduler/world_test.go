package scheduler

import (
	"cmp"
	"fmt"
	"slices"
	"testing"
	"time"

	"berth/fleet"
)

const (
	h100 = "h100-80"
	l40s = "l40s-48"
)

// world is a fleet that plans are applied to, in the way the state machine does it as far as the planner sees: enough to drive a rollout or a
// drain to its end. Every plan is checked by invariants_test.go before it is applied.
type world struct {
	t *testing.T
	Snapshot
	entry uint64
}

func newWorld(t *testing.T) *world {
	w := &world{t: t}
	w.Settings = fleet.DefaultSettings()
	w.Now = 1_700_000_000_000
	w.Demand, w.Quiet = map[string]Waiting{}, map[string]Quiet{}
	w.Backoff = Backoff{Models: map[string]Hold{}, Nodes: map[string]Hold{}, Pairs: map[Pair]Hold{}, Restarts: map[string]Hold{}}
	return w
}

// f0 is the base fleet of the field cases.
func f0(t *testing.T) *world {
	w := newWorld(t)
	w.node("n1", "fa", h100, 8)
	w.node("n2", "fa", h100, 8)
	w.node("n3", "fb", h100, 8)
	w.node("n4", "fb", l40s, 4)
	w.node("c1", "", "", 0)
	return w
}

func (w *world) node(name, fabric, class string, gpus int) *fleet.Node {
	n := &fleet.Node{Name: name, Instance: 1, Inventory: fleet.Inventory{Fabric: fabric, CPUs: 64, Memory: 512 * fleet.GiB}}
	n.Engines = []fleet.EngineOffer{{Driver: "vllm", Version: "0.18.1", Hub: true, SpanNodes: true, AllowArgs: []string{"*"}}}
	memory := map[string]fleet.Bytes{h100: 80 * fleet.GiB, l40s: 48 * fleet.GiB}[class]
	for i := range gpus {
		n.Inventory.GPUs = append(n.Inventory.GPUs, fleet.GPU{
			UUID: fmt.Sprintf("%s-%s-%d", name, class, i), Index: i, Class: class, Memory: memory, Health: fleet.Healthy,
		})
	}
	w.Nodes = append(w.Nodes, n)
	slices.SortFunc(w.Nodes, func(a, b *fleet.Node) int { return cmp.Compare(a.Name, b.Name) })
	return n
}

func (w *world) nodeNamed(name string) *fleet.Node {
	for _, n := range w.Nodes {
		if n.Name == name {
			return n
		}
	}
	w.t.Fatalf("no node %s", name)
	return nil
}

func (w *world) modelNamed(name string) *fleet.Model {
	for _, m := range w.Models {
		if m.Name() == name {
			return m
		}
	}
	w.t.Fatalf("no model %s", name)
	return nil
}

// model adds a model of one replica of nodes x gpus; adjust changes its spec.
func (w *world) model(name string, nodes, gpus int, class string, adjust ...func(*fleet.ModelSpec)) *fleet.Model {
	spec := fleet.DefaultedSpec()
	spec.Version, spec.Kind, spec.Name = 1, "model", name
	spec.Engine = fleet.EngineSpec{Driver: "vllm", Weights: "org/" + name}
	spec.Placement = fleet.PlacementSpec{Nodes: nodes, GPUsPerNode: gpus}
	if class != "" {
		spec.Placement.Classes = []string{class}
	}
	for _, f := range adjust {
		f(&spec)
	}
	if err := spec.Check(); err != nil {
		w.t.Fatal(err)
	}
	w.entry++
	m := &fleet.Model{Spec: spec, Generation: 1, Want: spec.Replicas.Min, Created: fleet.Index{Epoch: 1, N: w.entry}}
	w.Models = append(w.Models, m)
	slices.SortFunc(w.Models, func(a, b *fleet.Model) int { return cmp.Compare(a.Name(), b.Name()) })
	return m
}

func replicas(n int) func(*fleet.ModelSpec) {
	return func(s *fleet.ModelSpec) { s.Replicas = fleet.ReplicaCount{Min: n, Max: max(n, 1)} }
}

func rollout(surge, unavailable int) func(*fleet.ModelSpec) {
	return func(s *fleet.ModelSpec) {
		s.Rollout = fleet.RolloutSpec{MaxSurge: surge, MaxUnavailable: unavailable}
	}
}

// step plans, checks the plan, applies it, and lets a second pass.
func (w *world) step() fleet.Plan {
	w.t.Helper()
	plan := Plan(w.Snapshot)
	checkPlan(w.t, w.Snapshot, plan)
	w.apply(plan)
	return plan
}

// settle plans, lets every start become ready and every drain end, until nothing more is planned; each is called after every plan.
func (w *world) settle(each func()) {
	w.t.Helper()
	for range 100 {
		plan := w.step()
		if each != nil {
			each()
		}
		if len(plan.Items) == 0 {
			return
		}
		w.start()
		w.finish()
	}
	w.t.Fatalf("plans go on for ever; the last: %+v", Plan(w.Snapshot))
}

func (w *world) apply(plan fleet.Plan) {
	w.entry++
	w.Now += 1000
	for i, item := range plan.Items {
		switch {
		case item.Place != nil:
			w.Replicas = append(w.Replicas, &fleet.Replica{
				ID: fmt.Sprintf("r-1.%04d.%d", w.entry, i+1), Model: item.Place.Model, Generation: item.Place.Generation, State: fleet.Starting,
				Shards: item.Place.Shards, Start: 1, CreatedAt: w.Now, StateAt: w.Now,
			})
			slices.SortFunc(w.Replicas, func(a, b *fleet.Replica) int { return cmp.Compare(a.ID, b.ID) })
		case item.Stop != nil:
			r := w.replica(item.Stop.Replica)
			r.State, r.StateAt = fleet.DrainingDown, w.Now
			r.Drain = &fleet.Drain{Reason: item.Stop.Reason, Failed: item.Stop.Failed, Mark: item.Stop.Mark}
			if item.Stop.Want != nil {
				w.modelNamed(r.Model).Want = *item.Stop.Want
			}
		case item.Restart != nil:
			r := w.replica(item.Restart.Replica)
			r.Start, r.State, r.Restarts = item.Restart.Start, fleet.Starting, r.Restarts+1
			for i := range r.Shards {
				r.Shards[i].Exit = nil
			}
		case item.Wake != nil:
			w.modelNamed(item.Wake.Model).Want = 1
		}
	}
}

func (w *world) replica(id string) *fleet.Replica {
	for _, r := range w.Replicas {
		if r.ID == id {
			return r
		}
	}
	w.t.Fatalf("no replica %s", id)
	return nil
}

// start makes every starting replica ready.
func (w *world) start() {
	for _, r := range w.Replicas {
		if r.State == fleet.Starting {
			r.State, r.StateAt = fleet.Ready, w.Now
		}
	}
}

// finish ends every drain: cards proved empty, row gone.
func (w *world) finish() {
	w.Replicas = slices.DeleteFunc(w.Replicas, func(r *fleet.Replica) bool { return r.State == fleet.DrainingDown })
}

// put adds a ready replica of a model by hand, on the first gpus cards of a node from the given index.
func (w *world) put(id, model, node string, first, gpus int) *fleet.Replica {
	n := w.nodeNamed(node)
	r := &fleet.Replica{ID: id, Model: model, Generation: 1, State: fleet.Ready, Start: 1, CreatedAt: w.Now, StateAt: w.Now}
	shard := fleet.Shard{Node: node}
	for _, g := range n.Inventory.GPUs[first : first+gpus] {
		shard.Claims = append(shard.Claims, fleet.Claim{GPU: g.UUID})
	}
	r.Shards = []fleet.Shard{shard}
	w.Replicas = append(w.Replicas, r)
	slices.SortFunc(w.Replicas, func(a, b *fleet.Replica) int { return cmp.Compare(a.ID, b.ID) })
	return r
}

// of returns a model's replicas in a state.
func (w *world) of(model string, state fleet.ReplicaState) []*fleet.Replica {
	var out []*fleet.Replica
	for _, r := range w.Replicas {
		if r.Model == model && r.State == state {
			out = append(out, r)
		}
	}
	return out
}

func (w *world) nodesOf(model string) []string {
	var out []string
	for _, r := range w.Replicas {
		if r.Model == model && r.State.Live() {
			for _, s := range r.Shards {
				out = append(out, s.Node)
			}
		}
	}
	return out
}

func refusal(plan fleet.Plan, model string) fleet.Refusal {
	for _, r := range plan.Refusals {
		if r.Model == model {
			return r
		}
	}
	return fleet.Refusal{}
}

func hours(n int) time.Duration { return time.Duration(n) * time.Hour }
