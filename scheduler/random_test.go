package scheduler

import (
	"fmt"
	"math/rand/v2"
	"os"
	"reflect"
	"slices"
	"strconv"
	"testing"
	"time"

	"berth/fleet"
)

// seeded returns a source of randomness and logs its seed; BERTH_SEED repeats a run.
func seeded(t *testing.T) *rand.Rand {
	t.Helper()
	seed := uint64(time.Now().UnixNano())
	if s := os.Getenv("BERTH_SEED"); s != "" {
		v, err := strconv.ParseUint(s, 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		seed = v
	}
	t.Logf("BERTH_SEED=%d", seed)
	return rand.New(rand.NewPCG(seed, 0))
}

func oneOf[T any](r *rand.Rand, from ...T) T { return from[r.IntN(len(from))] }

// Random fleets live through failures, drains, rollouts and lost nodes. No plan breaks an invariant or depends on anything but its snapshot; and when
// everything calms down, planning ends, with every model at what it wants or refused with a reason.
func TestRandomFleets(t *testing.T) {
	r := seeded(t)
	rounds := 300
	if testing.Short() {
		rounds = 30
	}
	for round := range rounds {
		w := randomWorld(t, r)
		for range 30 {
			disturb(w, r)
			if again := Plan(w.Snapshot); !reflect.DeepEqual(again, Plan(w.Snapshot)) {
				t.Fatalf("round %d: two plans of one snapshot differ", round)
			}
			w.step()
		}
		calm(w)
		w.settle(nil)
		checkServed(t, w, round)
		if t.Failed() {
			return
		}
	}
}

func randomWorld(t *testing.T, r *rand.Rand) *world {
	w := newWorld(t)
	for i := range 1 + r.IntN(6) {
		n := w.node(fmt.Sprint("n", i), oneOf(r, "", "fa", "fa", "fb"), oneOf(r, h100, l40s), 1+r.IntN(8))
		n.Labels = map[string]string{"zone": oneOf(r, "a", "b"), "rack": oneOf(r, "1", "2")}
		for j := range n.Inventory.GPUs {
			if r.IntN(10) == 0 {
				n.Inventory.GPUs[j].Class = l40s
			}
		}
	}
	for i := range 1 + r.IntN(6) {
		w.model(fmt.Sprint("m", i), oneOf(r, 1, 1, 1, 2, 3), 1+r.IntN(4), oneOf(r, "", h100, l40s), replicas(r.IntN(4)), func(s *fleet.ModelSpec) { randomSpec(s, r) })
	}
	return w
}

func randomSpec(s *fleet.ModelSpec, r *rand.Rand) {
	s.Priority = r.IntN(3) * 40
	s.Rollout = oneOf(r, fleet.RolloutSpec{MaxSurge: 1}, fleet.RolloutSpec{MaxUnavailable: 1}, fleet.RolloutSpec{MaxSurge: 2, MaxUnavailable: 1})
	s.Placement.CPUs, s.Placement.Memory = r.IntN(30), fleet.Bytes(r.IntN(100))*fleet.GiB
	if s.Placement.Nodes == 1 && r.IntN(3) == 0 {
		s.Placement.GPUsPerNode, s.Placement.GPUShare = 0, fleet.Bytes(1+r.IntN(60))*fleet.GiB
	}
	if r.IntN(4) == 0 {
		s.Placement.Require = map[string]string{"zone": "a"}
	}
	s.Placement.GPUMemory = oneOf(r, 0, 0, 64*fleet.GiB)
	s.Placement.Spread = oneOf(r, nil, []string{"node"}, []string{"rack", "node"})
}

// disturb changes one thing that the planner has no say in.
func disturb(w *world, r *rand.Rand) {
	n := oneOf(r, w.Nodes...)
	m := oneOf(r, w.Models...)
	switch r.IntN(13) {
	case 0, 1, 2:
		w.start()
	case 3, 4:
		w.finish()
	case 5:
		n.Unreachable = !n.Unreachable
		n.RegisteredAt = w.Now
	case 6:
		n.Admin = oneOf(r, fleet.Schedulable, fleet.Cordoned, fleet.Draining)
	case 7:
		g := &n.Inventory.GPUs[r.IntN(len(n.Inventory.GPUs))]
		g.Health, g.Foreign = oneOf(r, fleet.Healthy, fleet.Unhealthy, fleet.HealthUnknown), r.IntN(5) == 0
	case 8:
		m.Generation++
		randomSpec(&m.Spec, r)
		m.Spec.Placement.GPUsPerNode = 1 + r.IntN(4)
		m.Spec.Placement.GPUShare = 0
	case 9:
		m.Want = r.IntN(4)
	case 10:
		m.Deleting = r.IntN(4) == 0
	case 11:
		breakSomething(w, r)
	case 12:
		w.Demand[m.Name()] = Waiting{Requests: r.IntN(2)}
		w.Backoff.Pairs[Pair{m.Name(), n.Name}] = Hold{For: time.Duration(r.IntN(2))}
	}
}

// breakSomething ends an engine, or fails a replica.
func breakSomething(w *world, r *rand.Rand) {
	if len(w.Replicas) == 0 {
		return
	}
	rep := oneOf(r, w.Replicas...)
	switch {
	case !rep.State.Live():
	case r.IntN(2) == 0 && len(rep.Shards) > 1:
		rep.Shards[r.IntN(len(rep.Shards))].Exit = &fleet.Exit{Code: 1}
	default:
		rep.State, rep.Reason = fleet.Failed, "broken"
		for i := range rep.Shards {
			rep.Shards[i].Released = r.IntN(2) == 0
		}
	}
}

// calm mends every node and ends every back-off, and forgets what failed.
func calm(w *world) {
	for _, n := range w.Nodes {
		n.Unreachable, n.Admin = false, fleet.Schedulable
		for i := range n.Inventory.GPUs {
			n.Inventory.GPUs[i].Health, n.Inventory.GPUs[i].Foreign = fleet.Healthy, false
		}
	}
	clear(w.Backoff.Pairs)
	clear(w.Demand)
	w.Replicas = slices.DeleteFunc(w.Replicas, func(r *fleet.Replica) bool { return r.State == fleet.Failed })
	w.start()
	w.finish()
}

// checkServed: every model has what it wants of the present generation, or a refusal says what is missing; and what is refused fits nowhere.
func checkServed(t *testing.T, w *world, round int) {
	t.Helper()
	plan := Plan(w.Snapshot)
	for _, m := range w.Models {
		want := m.Want
		if m.Deleting {
			want = 0
		}
		live, old := 0, 0
		for _, r := range w.of(m.Name(), fleet.Ready) {
			if live++; r.Generation != m.Generation {
				old++
			}
		}
		ref := refusal(plan, m.Name())
		if live > want || live < want && ref.Short != want-live || old > 0 && ref.Reason == "" {
			t.Errorf("round %d: %s wants %d, has %d of them %d old, refusal %+v", round, m.Name(), want, live, old, ref)
		}
		if ref.Model != "" && possible(w.Snapshot, m) {
			t.Errorf("round %d: %s is refused (%s), but an exhaustive search finds room", round, m.Name(), ref.Reason)
		}
	}
}
