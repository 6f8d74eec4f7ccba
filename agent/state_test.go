package agent_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"berth/agent"
	"berth/fleet"
	"berth/fleet/wire"
	"berth/fsm"
	"berth/internal/memnet"
)

// stated are peers with the real state machine behind them: what an agent reports is judged by what the cluster would make of it.
type stated struct {
	t       *testing.T
	mu      sync.Mutex
	machine *fsm.Machine
	at      uint64
	refused []string
}

func newStated(t *testing.T) *stated {
	s := &stated{t: t, machine: fsm.New()}
	s.apply(fsm.ClusterCreate{ID: "c-1"})
	return s
}

func (s *stated) apply(c fsm.Command) fsm.Outcome {
	s.mu.Lock()
	defer s.mu.Unlock()
	data, err := fsm.Encode(fsm.Meta{At: fleet.TimeOf(time.Now()), By: "test"}, c)
	if err != nil {
		s.t.Error(err)
		return fsm.Outcome{}
	}
	s.at++
	out, err := s.machine.Apply(s.at, data)
	if err != nil {
		s.t.Error(err)
	}
	return out
}

// must applies a command that is not refused, nor any item of it.
func (s *stated) must(c fsm.Command) {
	s.t.Helper()
	out := s.apply(c)
	if out.Err != nil {
		s.t.Fatalf("%s: %v", c.Kind(), out.Err)
	}
	for _, e := range out.Items {
		if e != nil {
			s.t.Fatalf("%s: %v", c.Kind(), e)
		}
	}
}

func (s *stated) Register(_ context.Context, r wire.Registration) (wire.Registered, error) {
	out := s.apply(fsm.NodeRegister{Registration: r})
	if out.Err != nil {
		return wire.Registered{}, out.Err
	}
	return wire.Registered{Cluster: "c-1", Index: out.Index}, nil
}

func (s *stated) Orders(ctx context.Context, node string, after fleet.Index, wait time.Duration) (wire.Orders, error) {
	t := time.NewTimer(wait)
	defer t.Stop()
	for over := false; ; {
		st := s.machine.State()
		changed := st.WatchOrders(node)
		if over || after.IsZero() || after.Before(st.OrdersIndex(node)) {
			return wire.Orders{Version: 1, Cluster: "c-1", Node: node, Index: st.Index(), Orders: st.Orders(node)}, nil
		}
		select {
		case <-changed:
		case <-t.C:
			over = true
		case <-ctx.Done():
			return wire.Orders{}, ctx.Err()
		}
	}
}

func (s *stated) Transitions(_ context.Context, node string, t wire.Transitions) (wire.TransitionResults, error) {
	out := s.apply(fsm.ReplicaTransitions{Node: node, Instance: t.Instance, Items: t.Items})
	if out.Err != nil {
		return wire.TransitionResults{}, out.Err
	}
	res := wire.TransitionResults{Index: out.Index}
	for i, e := range out.Items {
		res.Results = append(res.Results, "")
		if e != nil {
			res.Results[i] = e.Error()
			s.refused = append(s.refused, t.Items[i].To+": "+e.Error())
		}
	}
	return res, nil
}

func (s *stated) Heartbeat(context.Context, wire.Heartbeat) (wire.HeartbeatAnswer, error) {
	return wire.HeartbeatAnswer{Cluster: "c-1", Stamp: &wire.Stamp{Leader: "peer-1", Term: 1, Clock: time.Now().UnixNano()}, Interval: fleet.Duration(time.Second)}, nil
}

// replica is the only one, or nil when there is none.
func (s *stated) replica() *fleet.Replica {
	for r := range s.machine.State().Replicas() {
		return r
	}
	return nil
}

func (s *stated) wantState(want fleet.ReplicaState) *fleet.Replica {
	s.t.Helper()
	r := s.replica()
	if r == nil || r.State != want {
		s.t.Fatalf("the replica is %+v, want it %s; refused: %v", r, want, s.refused)
	}
	return r
}

// place applies a model of so many nodes and places it on the first card of each.
func (s *stated) place(args []string, nodes ...string) {
	s.t.Helper()
	spec := fleet.DefaultedSpec()
	spec.Version, spec.Kind, spec.Name = fleet.SpecVersion, "model", "m"
	spec.Engine = fleet.EngineSpec{Driver: "sim", Weights: "m", Args: args}
	spec.Placement = fleet.PlacementSpec{Nodes: len(nodes), GPUsPerNode: 1}
	spec.Start.MaxRestarts = 2
	spec.Drain = fleet.DrainSpec{Minimum: fleet.Duration(time.Second), Deadline: fleet.Duration(time.Minute)}
	if len(nodes) > 1 {
		spec.Rollout = fleet.RolloutSpec{MaxUnavailable: 1}
	}
	s.must(fsm.ModelApply{Spec: spec})
	item := fleet.PlaceItem{Model: "m", Generation: 1}
	for _, n := range nodes {
		item.Shards = append(item.Shards, fleet.Shard{Node: n, Claims: []fleet.Claim{{GPU: "GPU-0-" + n}}})
	}
	s.must(fsm.PlanApply{Term: 1, Plan: fleet.Plan{Items: []fleet.PlanItem{{Place: &item}}}})
}

// onState runs a test with nodes whose agents speak to one state machine.
func onState(t *testing.T, names []string, test func(*testing.T, *stated, []*rig)) {
	dirs := make([]string, len(names))
	for i := range dirs {
		dirs[i] = t.TempDir()
	}
	inBubble(t, func(t *testing.T, _ *rig) {
		s := newStated(t)
		net := memnet.New(3)
		var rigs []*rig
		for i, name := range names {
			g := &rig{t: t, host: net.Host("192.0.2." + name[len(name)-2:]), dir: dirs[i], cards: newCards(1), log: &logBuffer{}}
			g.cards.inv.Fabric, g.cards.inv.GPUs[0].UUID = "fa", "GPU-0-"+name
			machineOf(t, g, name)
			real := g.adjust
			g.adjust = func(c *agent.Config) { real(c); c.Peers, c.Addresses = s, nil }
			g.start()
			defer g.stop()
			rigs = append(rigs, g)
		}
		rigs[0].after(time.Second)
		test(t, s, rigs)
	})
}

// TestStateOfOneReplica: every report of a life is one that the state machine accepts, across a restart of the agent, and the row goes at the end.
func TestStateOfOneReplica(t *testing.T) {
	onState(t, []string{"gpu-017"}, func(t *testing.T, s *stated, g []*rig) {
		s.place([]string{"--load-time=5s"}, "gpu-017")
		g[0].after(2 * time.Second)
		if r := s.wantState(fleet.Starting); r.Door == nil || r.Door.Key == "" {
			t.Fatalf("%+v", r)
		}
		g[0].after(10 * time.Second)
		before := s.wantState(fleet.Ready)
		g[0].stop()
		g[0].start()
		g[0].after(5 * time.Second)
		if r := s.wantState(fleet.Ready); r.StateAt != before.StateAt || r.Restarts != 0 {
			t.Errorf("an agent's restart changed the replica: %+v", r)
		}
		s.must(fsm.ReplicaRestart{Replica: before.ID, Reason: "asked"})
		g[0].after(time.Second)
		s.wantState(fleet.Starting)
		g[0].after(20 * time.Second)
		if r := s.wantState(fleet.Ready); r.Start != 2 || *r.Door != *before.Door {
			t.Errorf("%+v", r)
		}
		s.must(fsm.ReplicaStop{Replica: before.ID, Reason: "asked"})
		g[0].after(10 * time.Second)
		if r := s.replica(); r != nil {
			t.Errorf("the row is still there: %+v", r)
		}
		if len(s.refused) != 0 {
			t.Errorf("refused: %v", s.refused)
		}
	})
}

func TestStateOfACrashLoop(t *testing.T) {
	onState(t, []string{"gpu-017"}, func(t *testing.T, s *stated, g []*rig) {
		s.place([]string{`--fault={"crash_after":"1500ms","crash_code":3}`}, "gpu-017")
		g[0].after(2500 * time.Millisecond)
		if r := s.wantState(fleet.Starting); r.Restarts != 1 || r.Shards[0].Exit == nil || r.Shards[0].Exit.Code != 3 {
			t.Errorf("%+v", r)
		}
		g[0].after(5 * time.Minute)
		r := s.wantState(fleet.Failed)
		if !r.Shards[0].Released || r.Restarts > 3 || r.Reason == "" || len(r.Shards[0].Exit.Log) == 0 {
			t.Errorf("%+v", r)
		}
		if len(s.refused) != 0 {
			t.Errorf("refused: %v", s.refused)
		}
	})
}

// TestStateOfAGang: the ranks meet, a new start brings them together again, and a stop goes through the door to both.
func TestStateOfAGang(t *testing.T) {
	onState(t, []string{"gpu-017", "gpu-018"}, func(t *testing.T, s *stated, g []*rig) {
		s.place(nil, "gpu-017", "gpu-018")
		g[0].after(10 * time.Second)
		first := s.wantState(fleet.Ready)
		s.must(fsm.PlanApply{Term: 1, Plan: fleet.Plan{Items: []fleet.PlanItem{{Restart: &fleet.RestartItem{Replica: first.ID, Start: 2, Reason: "a rank was lost"}}}}})
		g[0].after(20 * time.Second)
		second := s.wantState(fleet.Ready)
		if second.Start != 2 || second.Master == first.Master {
			t.Errorf("%+v", second)
		}
		s.must(fsm.ReplicaStop{Replica: first.ID, Reason: "asked"})
		g[0].after(time.Minute)
		if r := s.replica(); r != nil {
			t.Errorf("the row is still there: %+v", r)
		}
		if len(s.refused) != 0 {
			t.Errorf("refused: %v", s.refused)
		}
	})
}

// killShim lets a node's only shim die.
func (g *rig) killShim() {
	g.t.Helper()
	found, err := g.config().Maker.Find(g.t.Context())
	if err != nil || len(found.Live) != 1 {
		g.t.Fatalf("%d live shims, %v", len(found.Live), err)
	}
	if err := found.Live[0].Kill(g.t.Context()); err != nil {
		g.t.Fatal(err)
	}
}

// TestStateOfDeadShims: of a single-node replica it is a restart behind the same door, also when it died while no agent looked; of a gang's rank it
// is an exit, which waits for a new start of all.
func TestStateOfDeadShims(t *testing.T) {
	onState(t, []string{"gpu-017"}, func(t *testing.T, s *stated, g []*rig) {
		s.place([]string{"--load-time=5s"}, "gpu-017")
		g[0].after(10 * time.Second)
		before := s.wantState(fleet.Ready)
		g[0].killShim()
		g[0].after(time.Second)
		if r := s.wantState(fleet.Starting); r.Restarts != 1 || *r.Door != *before.Door {
			t.Errorf("%+v", r)
		}
		g[0].after(20 * time.Second)
		s.wantState(fleet.Ready)
		g[0].stop()
		g[0].killShim()
		g[0].start()
		g[0].after(time.Second)
		if r := s.wantState(fleet.Starting); r.Restarts != 2 {
			t.Errorf("%+v", r)
		}
		g[0].after(30 * time.Second)
		if r := s.wantState(fleet.Ready); *r.Door != *before.Door {
			t.Errorf("%+v", r)
		}
		if len(s.refused) != 0 {
			t.Errorf("refused: %v", s.refused)
		}
	})
	onState(t, []string{"gpu-017", "gpu-018"}, func(t *testing.T, s *stated, g []*rig) {
		s.place(nil, "gpu-017", "gpu-018")
		g[0].after(10 * time.Second)
		id := s.wantState(fleet.Ready).ID
		g[1].killShim()
		g[0].after(5 * time.Second)
		if r := s.wantState(fleet.Starting); r.Shards[1].Exit == nil {
			t.Fatalf("%+v", r)
		}
		s.must(fsm.PlanApply{Term: 1, Plan: fleet.Plan{Items: []fleet.PlanItem{{Restart: &fleet.RestartItem{Replica: id, Start: 2, Reason: "a rank was lost"}}}}})
		g[0].after(20 * time.Second)
		if r := s.wantState(fleet.Ready); r.Start != 2 || r.Shards[1].Exit != nil {
			t.Errorf("%+v", r)
		}
	})
}
