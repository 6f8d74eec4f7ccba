package scheduler

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"

	"berth/fleet"
	"berth/fsm"
)

// cluster is the real state machine with one peer's log, driven by plans.
type cluster struct {
	t       *testing.T
	machine *fsm.Machine
	index   uint64
	now     fleet.Time
	placed  int
	planner Planner
}

// do applies a command and fails the test if it is refused.
func (c *cluster) do(cmd fsm.Command) fsm.Outcome {
	c.t.Helper()
	c.index++
	c.now += 1000
	data, err := fsm.Encode(fsm.Meta{At: c.now}, cmd)
	if err != nil {
		c.t.Fatal(err)
	}
	out, err := c.machine.Apply(c.index, data)
	if err != nil || out.Err != nil {
		c.t.Fatalf("%s: %v %v", cmd.Kind(), err, out.Err)
	}
	return out
}

func (c *cluster) snapshot() Snapshot {
	s := c.machine.State()
	return Snapshot{
		Now: c.now, Settings: s.Settings(), Models: slices.Collect(s.Models()), Nodes: slices.Collect(s.Nodes()), Replicas: slices.Collect(s.Replicas()),
	}
}

// plan applies a plan of the present state; nothing of it may be refused.
func (c *cluster) plan() int {
	c.t.Helper()
	s := c.snapshot()
	plan := Plan(s)
	if kept := c.planner.Plan(s); !reflect.DeepEqual(kept, plan) {
		c.t.Fatalf("a planner that has seen earlier states plans\n%+v\nand one that has not\n%+v", kept, plan)
	}
	checkPlan(c.t, s, plan)
	if len(plan.Items) == 0 {
		return 0
	}
	for i, err := range c.do(fsm.PlanApply{Plan: plan, Term: 1}).Items {
		if err != nil {
			c.t.Fatalf("the state machine refuses item %d, %+v: %v", i, plan.Items[i], err)
		}
		if plan.Items[i].Place != nil {
			c.placed++
		}
	}
	return len(plan.Items)
}

func (c *cluster) register(n *fleet.Node, instance uint64) {
	var cmd fsm.NodeRegister
	r := &cmd.Registration
	r.Version, r.Name, r.ID, r.Instance = 1, n.Name, "id-"+n.Name, instance
	r.Address, r.EngineAddress = "192.0.2.1:7310", "192.0.2.1"
	r.Labels, r.Inventory, r.Engines = n.Labels, n.Inventory, n.Engines
	c.do(cmd)
}

// report sends one transition of a shard, in answer to its newest order.
func (c *cluster) report(r *fleet.Replica, rank int, to string) {
	node, _ := c.machine.State().Node(r.Shards[rank].Node)
	cmd := fsm.ReplicaTransitions{Node: node.Name, Instance: node.Instance}
	cmd.Items = slices.Grow(cmd.Items, 1)[:1]
	t := &cmd.Items[0]
	t.Replica, t.Rank, t.Order, t.Start, t.To, t.Shim = r.ID, rank, r.Order, r.Start, to, 1
	t.Released = to == "stopped"
	if rank == 0 && to != "stopped" {
		t.Door = &fleet.Door{Address: "192.0.2.1:20000", Key: "k"}
	}
	c.do(cmd)
}

// agents lets some shards come up, end or exit, as their state allows.
func (c *cluster) agents(r *rand.Rand, everyOneIn int) {
	for _, rep := range slices.Collect(c.machine.State().Replicas()) {
		for rank := range rep.Shards {
			now, ok := c.machine.State().Replica(rep.ID)
			switch {
			case !ok || r.IntN(everyOneIn) != 0 || now.Shards[rank].Released:
			case now.State == fleet.Starting && rank == 0:
				c.report(now, rank, "ready")
			case now.State == fleet.DrainingDown, now.State == fleet.Failed:
				c.report(now, rank, "stopped")
			case everyOneIn > 1 && r.IntN(10) == 0:
				c.report(now, rank, "exited")
			}
		}
	}
}

// The real state machine accepts every item of every plan that was made on its present state, through failures, rollouts and drains; and in the end all
// is placed or refused, and planning stops.
func TestStateMachineAcceptsEveryPlan(t *testing.T) {
	r := seeded(t)
	placed := 0
	for range 40 {
		w := randomWorld(t, r)
		c := &cluster{t: t, machine: fsm.New(), now: w.Now}
		c.do(fsm.ClusterCreate{ID: "c"})
		for _, n := range w.Nodes {
			c.register(n, 1)
		}
		for _, m := range w.Models {
			c.do(fsm.ModelApply{Spec: m.Spec})
		}
		for range 40 {
			c.operate(r, w)
			c.plan()
			c.agents(r, 2)
		}
		c.settle(r)
		placed += c.placed
	}
	if placed < 40 {
		t.Errorf("only %d replicas were placed: the test says little", placed)
	}
	t.Logf("%d replicas placed", placed)
}

// operate does what operators and the liveness of nodes do.
func (c *cluster) operate(r *rand.Rand, w *world) {
	m, n := oneOf(r, w.Models...), oneOf(r, w.Nodes...)
	model, there := c.machine.State().Model(m.Name())
	there = there && !model.Deleting
	row, _ := c.machine.State().Node(n.Name)
	switch r.IntN(8) {
	case 0:
		m.Spec.Engine.Args = []string{fmt.Sprint("--n=", r.IntN(100))}
		c.do(fsm.ModelApply{Spec: m.Spec})
	case 1:
		if there {
			c.do(fsm.ModelScale{Model: m.Name(), Replicas: r.IntN(4)})
		}
	case 2:
		if there && r.IntN(3) == 0 {
			c.do(fsm.ModelDelete{Model: m.Name()})
		}
	case 3:
		c.do(fsm.NodeDrain{Node: n.Name, Deadline: 1})
	case 4:
		if row.Admin == fleet.Draining {
			c.do(fsm.NodeDrainEnd{Node: n.Name, State: "cancelled"})
		}
	case 5:
		c.do(fsm.NodeLiveness{Node: n.Name, Instance: row.Instance, Unreachable: true})
	case 6:
		if row.Unreachable {
			c.register(n, row.Instance+1)
		}
	}
}

func (c *cluster) settle(r *rand.Rand) {
	c.t.Helper()
	for _, n := range slices.Collect(c.machine.State().Nodes()) {
		if n.Admin == fleet.Draining {
			c.do(fsm.NodeDrainEnd{Node: n.Name, State: "cancelled"})
		}
		c.register(n, n.Instance+1)
	}
	for range 60 {
		c.agents(r, 1)
		if c.plan() == 0 {
			break
		}
	}
	c.agents(r, 1)
	if n := c.plan(); n > 0 {
		c.t.Fatalf("planning goes on for ever; %d items more: %+v", n, Plan(c.snapshot()).Items)
	}
	s := c.snapshot()
	plan := Plan(s)
	for _, m := range s.Models {
		live := 0
		for rep := range c.machine.State().ReplicasOf(m.Name()) {
			if rep.State.Live() {
				live++
			}
		}
		if ref := refusal(plan, m.Name()); !m.Deleting && live != m.Want && ref.Short != m.Want-live {
			c.t.Errorf("%s wants %d and has %d; refusal %+v", m.Name(), m.Want, live, ref)
		}
	}
}

// Plans that are late: made on a state that operators, agents and dead nodes have changed since. The state machine takes of them what still holds and
// refuses the rest, and whatever is planned, no card is ever claimed beyond what it has and no gang is placed in part or over two fabrics.
func TestStalePlansBreakNothing(t *testing.T) {
	r := seeded(t)
	refused, taken := 0, 0
	for range 40 {
		w := randomWorld(t, r)
		c := &cluster{t: t, machine: fsm.New(), now: w.Now}
		c.do(fsm.ClusterCreate{ID: "c"})
		for _, n := range w.Nodes {
			c.register(n, 1)
		}
		for _, m := range w.Models {
			c.do(fsm.ModelApply{Spec: m.Spec})
		}
		var late []fleet.Plan
		for range 40 {
			late = append(late, c.planner.Plan(c.snapshot()))
			c.operate(r, w)
			c.agents(r, 2)
			for _, plan := range late[max(0, len(late)-1-r.IntN(3)):] {
				for _, err := range c.do(fsm.PlanApply{Plan: fleet.Plan{Items: plan.Items}, Term: 1}).Items {
					if err != nil {
						refused++
					} else {
						taken++
					}
				}
				c.checkClaims()
			}
		}
		c.settle(r)
	}
	if refused < 40 || taken < 40 {
		t.Errorf("%d items were refused and %d taken: the test says little", refused, taken)
	}
}

// checkClaims recounts the state by itself: what each card is claimed for, and where the shards of each replica are. Inventories do not shrink here, so
// nothing may ever be overcommitted.
func (c *cluster) checkClaims() {
	c.t.Helper()
	whole, shared := map[string]int{}, map[string]fleet.Bytes{}
	state := c.machine.State()
	for r := range state.Replicas() {
		if m, ok := state.Spec(r.Model, r.Generation); ok && len(r.Shards) != m.Placement.Nodes {
			c.t.Fatalf("%s has %d shards of %d", r.ID, len(r.Shards), m.Placement.Nodes)
		}
		fabrics := map[string]bool{}
		for _, s := range r.Shards {
			if n, ok := state.Node(s.Node); ok {
				fabrics[n.Fabric()] = true
			}
			for _, claim := range s.Claims {
				switch {
				case s.Released:
				case claim.Share == 0:
					whole[s.Node+"/"+claim.GPU]++
				default:
					shared[s.Node+"/"+claim.GPU] += claim.Share
				}
			}
		}
		if len(r.Shards) > 1 && (len(fabrics) != 1 || fabrics[""]) {
			c.t.Fatalf("%s spans the fabrics %v", r.ID, fabrics)
		}
	}
	for n := range state.Nodes() {
		for _, g := range n.Inventory.GPUs {
			key := n.Name + "/" + g.UUID
			if whole[key] > 1 || whole[key] == 1 && shared[key] > 0 || shared[key] > g.Memory {
				c.t.Fatalf("%s is overcommitted: %d whole, %s shared of %s", key, whole[key], shared[key], g.Memory)
			}
		}
	}
}
