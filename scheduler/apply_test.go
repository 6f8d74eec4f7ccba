package scheduler

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"
	"time"

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
	planner Planner // is given snapshots, and looks for itself what has changed
	told    Planner // is told
	rows    Rows    // of the snapshot that it was given last, at this state
	at      *fsm.State
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

// agreed is the plan of a snapshot, on which planners that have seen others before must agree with one that has not.
func (c *cluster) agreed(s Snapshot) fleet.Plan {
	c.t.Helper()
	plan := Plan(s)
	if alone := Plan(distinct(s)); !reflect.DeepEqual(alone, plan) {
		c.t.Fatalf("models that share what they ask for are planned for as\n%+v\nand those that do not as\n%+v", plan, alone)
	}
	if kept := c.planner.Plan(s); !reflect.DeepEqual(kept, plan) {
		c.t.Fatalf("a planner that has seen earlier states plans\n%+v\nand one that has not\n%+v", kept, plan)
	}
	if told := c.told.Plan(c.since(s)); !reflect.DeepEqual(told, plan) {
		c.t.Fatalf("a planner that is told what has changed plans\n%+v\nand one that has seen nothing before\n%+v", told, plan)
	}
	return plan
}

// distinct is the same snapshot with a flag for each model that no other has and every node allows: what is shared among models that ask for the same is
// not shared then.
func distinct(s Snapshot) Snapshot {
	s.Models = slices.Clone(s.Models)
	for i, m := range s.Models {
		own := *m
		own.Spec.Engine.Args = append(slices.Clone(m.Spec.Engine.Args), fmt.Sprint("--own-", i))
		s.Models[i] = &own
	}
	return s
}

// observed is the present state with things that a leader may observe, at random: what waits, what is quiet, what is held back, where weights are.
func (c *cluster) observed(r *rand.Rand) Snapshot {
	s := c.snapshot()
	s.Frozen, s.Braked = r.IntN(10) == 0, r.IntN(10) == 0
	s.Demand, s.Quiet, s.Weights, s.Waited = map[string]Waiting{}, map[string]Quiet{}, map[string]map[string]bool{}, map[string]time.Duration{}
	s.Backoff = Backoff{Models: map[string]Hold{}, Nodes: map[string]Hold{}, Pairs: map[Pair]Hold{}}
	for _, m := range s.Models {
		switch n := oneOf(r, s.Nodes...).Name; r.IntN(6) {
		case 0:
			s.Demand[m.Name()] = Waiting{Requests: 1}
		case 1:
			s.Backoff.Models[m.Name()] = Hold{time.Minute, "it failed"}
		case 2:
			s.Backoff.Pairs[Pair{m.Name(), n}] = Hold{time.Minute, "it failed there"}
		case 3:
			s.Weights[m.Name()] = map[string]bool{n: true}
		case 4:
			s.Waited[m.Name()] = time.Hour
		case 5:
			if r.IntN(4) == 0 {
				s.Backoff.Nodes[n] = Hold{time.Minute, "models failed there"}
			}
		}
	}
	for _, rep := range s.Replicas {
		if r.IntN(3) == 0 {
			s.Quiet[rep.ID] = Quiet{For: time.Duration(r.IntN(20_000)) * time.Second, Known: true}
		}
	}
	return s
}

// since is the snapshot with what has changed since the last one.
func (c *cluster) since(s Snapshot) Snapshot {
	is, changes := c.machine.State(), new(Changes)
	if c.at == nil {
		c.at = fsm.New().State()
	}
	fsm.Diff(c.at, is, fsm.Changes{
		Model: func(old, m *fleet.Model) { changes.Models = append(changes.Models, Row[fleet.Model]{Old: old, New: m}) },
		Node:  func(old, n *fleet.Node) { changes.Nodes = append(changes.Nodes, Row[fleet.Node]{Old: old, New: n}) },
		Replica: func(old, r *fleet.Replica) {
			changes.Replicas = append(changes.Replicas, Row[fleet.Replica]{Old: old, New: r})
		},
	})
	c.at = is
	c.rows.Apply(changes)
	if !slices.Equal(c.rows.Models, s.Models) || !slices.Equal(c.rows.Nodes, s.Nodes) || !slices.Equal(c.rows.Replicas, s.Replicas) {
		c.t.Fatalf("the rows with the changes are not those of the state: %+v", changes)
	}
	s.Models, s.Nodes, s.Replicas, s.Since = c.rows.Models, c.rows.Nodes, c.rows.Replicas, changes
	return s
}

// plan applies a plan of the present state; nothing of it may be refused.
func (c *cluster) plan() int {
	c.t.Helper()
	s := c.snapshot()
	plan := c.agreed(s)
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
		w.twins(r)
		for _, m := range w.Models {
			c.do(fsm.ModelApply{Spec: m.Spec})
		}
		for range 40 {
			c.operate(r, w)
			c.agreed(c.observed(r))
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

// twins adds models that ask for what others ask for, at priorities of their own.
func (w *world) twins(r *rand.Rand) {
	for i := range r.IntN(6) {
		like := oneOf(r, w.Models...).Spec
		w.model(fmt.Sprint("twin-", i), 1, 1, "", func(s *fleet.ModelSpec) {
			s.Engine, s.Placement, s.Priority = like.Engine, like.Placement, r.IntN(3)*40
			replicas(r.IntN(3))(s)
		})
	}
}

// operate does what operators and the liveness of nodes do.
func (c *cluster) operate(r *rand.Rand, w *world) {
	m, n := oneOf(r, w.Models...), oneOf(r, w.Nodes...)
	model, there := c.machine.State().Model(m.Name())
	there = there && !model.Deleting
	row, _ := c.machine.State().Node(n.Name)
	switch r.IntN(10) {
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
	case 7:
		if row.Admin != fleet.Draining {
			c.do(fsm.NodeAdmin{Node: n.Name, Admin: oneOf(r, fleet.Cordoned, fleet.Schedulable), Reason: "test"})
		}
	case 8:
		c.sicken(r, n, row)
	case 9:
		more := *n
		more.Labels = map[string]string{"rack": fmt.Sprint(r.IntN(3))}
		c.register(&more, row.Instance)
	}
}

// sicken lets a node report other conditions of its cards than before.
func (c *cluster) sicken(r *rand.Rand, n, row *fleet.Node) {
	ill := *n
	ill.Inventory.GPUs = slices.Clone(n.Inventory.GPUs)
	for i := range ill.Inventory.GPUs {
		g := &ill.Inventory.GPUs[i]
		g.Health, g.Foreign = oneOf(r, fleet.Healthy, fleet.Healthy, fleet.Unhealthy), r.IntN(6) == 0
	}
	c.register(&ill, row.Instance)
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
