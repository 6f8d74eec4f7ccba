package fsm

import (
	"fmt"
	"math/rand/v2"
	"slices"

	"berth/fleet"
	"berth/fleet/wire"
)

// generator makes random commands that have something to do with a state, so that a fair part of them is accepted.
type generator struct{ rng *rand.Rand }

func newGenerator(seed uint64) *generator { return &generator{rng: rand.New(rand.NewPCG(seed, 1))} }

const genNodes, genCards = 6, 3

func (g *generator) nodes() []string {
	var out []string
	for i := range genNodes {
		out = append(out, fmt.Sprintf("n%d", i))
	}
	return out
}

func (g *generator) command(s *State) Command {
	switch p := g.rng.IntN(100); {
	case s.Freeze() != nil && p < 20:
		return FreezeSet{}
	case p < 45:
		return g.report(s)
	case p < 72:
		return g.plan(s)
	case p < 80:
		return g.register(s)
	case p < 86:
		return g.modelCommand(s)
	case p < 92:
		return g.nodeCommand(s)
	case p < 97:
		return g.replicaCommand(s)
	default:
		return g.clusterCommand(s)
	}
}

func pick[T any](g *generator, of []T) T { return of[g.rng.IntN(len(of))] }

func (g *generator) chance(percent int) bool { return g.rng.IntN(100) < percent }

func (g *generator) modelName() string {
	return pick(g, []string{"m0", "m1", "m2", "m3", "M0", "org/m4"})
}

func (g *generator) modelCommand(s *State) Command {
	name := g.modelName()
	switch p := g.rng.IntN(10); {
	case p < 6:
		return ModelApply{Spec: g.spec(name), IfMatch: g.match(s, name)}
	case p < 7:
		return ModelScale{Model: name, Replicas: g.rng.IntN(4)}
	case p < 8:
		return RolloutPause{Model: name, Paused: g.rng.IntN(2) == 0}
	default:
		return ModelDelete{Model: name, IfMatch: g.match(s, name)}
	}
}

func (g *generator) match(s *State, name string) *fleet.Index {
	m, ok := s.Model(name)
	if !ok || !g.chance(30) {
		return nil
	}
	i := m.Changed
	return &i
}

func (g *generator) spec(name string) fleet.ModelSpec {
	sp := model(name, 1+g.rng.IntN(2), 1+g.rng.IntN(2))
	if g.chance(30) {
		sp.Placement = fleet.PlacementSpec{Nodes: 1, GPUShare: pick(g, []fleet.Bytes{20, 30, 50}) * fleet.GiB}
	}
	sp.Engine.Args = []string{pick(g, []string{"-a", "-b"})}
	if g.chance(20) {
		sp.Aliases = []string{pick(g, []string{"alias", "m1", "Alias"})}
	}
	sp.Replicas = fleet.ReplicaCount{Min: g.rng.IntN(3), Max: 2 + g.rng.IntN(3)}
	sp.Priority = g.rng.IntN(100)
	return sp
}

func (g *generator) register(s *State) Command {
	c := register(pick(g, g.nodes()), pick(g, []string{"fa", "fa", "fa", "fb", ""}), genCards-g.rng.IntN(8)/7)
	reg := &c.Registration
	if old, ok := s.Node(reg.Name); ok {
		reg.Instance = old.Instance + uint64(g.rng.IntN(2))
	}
	for i := range reg.Inventory.GPUs {
		switch card := &reg.Inventory.GPUs[i]; g.rng.IntN(20) {
		case 0:
			card.Health = fleet.Unhealthy
		case 1:
			card.Memory = 40 * fleet.GiB
		}
	}
	if g.chance(10) {
		reg.Unmanaged = []fleet.Unmanaged{{What: "python", GPUs: []string{reg.Inventory.GPUs[0].UUID}}}
	}
	for r := range s.ReplicasOn(reg.Name) {
		if g.chance(70) {
			rank := r.Rank(reg.Name)
			reg.Running = append(reg.Running, wire.Running{
				Replica: r.ID, Rank: rank, Model: r.Model, Order: r.Order, Start: r.Start, Ready: g.chance(50), Shim: uint64(g.rng.IntN(9)),
				Door: &fleet.Door{Address: "192.0.2.1:20000", Key: "k"}, Claims: r.Shards[rank].Claims,
			})
		}
	}
	if epoch := s.Cluster().Epoch; epoch > 1 && g.chance(30) {
		reg.Running = append(reg.Running, g.forgotten(s, reg, epoch-1))
	}
	return c
}

// forgotten makes an engine of an epoch before that the state may know nothing of.
func (g *generator) forgotten(s *State, reg *wire.Registration, epoch uint64) wire.Running {
	run := wire.Running{
		Replica: fmt.Sprintf("r-%d.%d.9", epoch, g.rng.IntN(1000)), Model: g.modelName(), Order: fleet.Index{Epoch: epoch, N: 1}, Start: 1, Ready: g.chance(50), Shim: 3,
		Door: &fleet.Door{Address: "192.0.2.1:20000", Key: "k"}, Claims: []fleet.Claim{{GPU: pick(g, reg.Inventory.GPUs).UUID}},
	}
	if m, ok := s.Model(run.Model); ok {
		run.RunHash, run.Rank = m.Spec.RunHash(), g.rng.IntN(m.Spec.Placement.Nodes)
	}
	return run
}

func (g *generator) nodeCommand(s *State) Command {
	node := pick(g, g.nodes())
	instance := uint64(1)
	if n, ok := s.Node(node); ok {
		instance = n.Instance
	}
	switch p := g.rng.IntN(20); {
	case p < 4:
		return NodeLiveness{Node: node, Instance: instance, Unreachable: true}
	case p < 9:
		return NodeAdmin{Node: node, Admin: pick(g, []fleet.Admin{fleet.Schedulable, fleet.Schedulable, fleet.Cordoned})}
	case p < 11:
		return NodeDrain{Node: node, Deadline: 60_000_000_000}
	case p < 15:
		return NodeDrainEnd{Node: node, State: pick(g, []string{drainDone, drainTimedOut, drainCancelled, drainCancelled})}
	case p < 19:
		v := pick(g, []string{"fa", "fb"})
		return NodeLabel{Node: node, Set: map[string]*string{"fabric": pick(g, []*string{nil, nil, &v}), "rack": &v}}
	default:
		return NodeForget{Node: node}
	}
}

func (g *generator) plan(s *State) Command {
	var p fleet.Plan
	for range 1 + g.rng.IntN(3) {
		p.Items = append(p.Items, g.item(s))
	}
	return PlanApply{Plan: p, Term: 1}
}

func (g *generator) item(s *State) fleet.PlanItem {
	replica := g.replica(s)
	switch p := g.rng.IntN(10); {
	case p < 6 || replica == nil:
		return g.place(s)
	case p < 8:
		stop := fleet.StopItem{Replica: replica.ID, Reason: "surplus"}
		if g.chance(50) {
			stop.Mark = &fleet.Mark{Shim: 1, Engine: 1, Admissions: 5}
			want := g.rng.IntN(2)
			stop.Want = &want
		}
		if g.chance(20) {
			stop.Failed = "restarts exhausted"
		}
		return fleet.PlanItem{Stop: &stop}
	case p < 9:
		return fleet.PlanItem{Restart: &fleet.RestartItem{Replica: replica.ID, Start: replica.Start + 1, Reason: "rank exited"}}
	default:
		return fleet.PlanItem{Wake: &fleet.WakeItem{Model: g.modelName()}}
	}
}

// place makes a placement of the right shape on random cards, and sometimes of a wrong one.
func (g *generator) place(s *State) fleet.PlanItem {
	models := slices.Collect(s.Models())
	if len(models) == 0 {
		return fleet.PlanItem{Place: &fleet.PlaceItem{Model: "m0", Generation: 1}}
	}
	m := pick(g, models)
	p := fleet.PlaceItem{Model: m.Name(), Generation: m.Generation}
	want := m.Spec.Placement
	nodes := g.nodes()
	g.rng.Shuffle(len(nodes), func(i, j int) { nodes[i], nodes[j] = nodes[j], nodes[i] })
	for _, node := range nodes[:want.Nodes] {
		shard := fleet.Shard{Node: node}
		for _, gpu := range g.cards(s, node, max(want.GPUsPerNode, 1)) {
			shard.Claims = append(shard.Claims, fleet.Claim{GPU: gpu, Share: want.GPUShare})
		}
		p.Shards = append(p.Shards, shard)
	}
	if g.chance(5) {
		p.Shards[0].Claims = append(p.Shards[0].Claims, p.Shards[0].Claims[0])
	}
	return fleet.PlanItem{Place: &p}
}

// cards picks cards of a node, mostly the least claimed ones.
func (g *generator) cards(s *State, node string, count int) []string {
	var all []string
	for i := range genCards {
		all = append(all, fmt.Sprintf("GPU-%s-%d", node, i))
	}
	g.rng.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	if g.chance(85) {
		held := func(gpu string) int { return len(slices.Collect(keysOf(s.Claims(node, gpu)))) }
		slices.SortStableFunc(all, func(a, b string) int { return held(a) - held(b) })
	}
	return all[:count]
}

func (g *generator) replica(s *State) *fleet.Replica {
	rows := slices.Collect(s.Replicas())
	if len(rows) == 0 {
		return nil
	}
	return pick(g, rows)
}

func (g *generator) report(s *State) Command {
	r := g.replica(s)
	if r == nil {
		return g.register(s)
	}
	rank := g.rng.IntN(len(r.Shards))
	t := wire.Transition{Replica: r.ID, Rank: rank, Order: r.Order, Start: r.Start, Shim: uint64(g.rng.IntN(3)), To: g.step(r)}
	switch t.To {
	case wire.BecameStarting:
		t.Door, t.Master = &fleet.Door{Address: fmt.Sprintf("192.0.2.1:%d", 20000+g.rng.IntN(9)), Key: "k"}, "192.0.2.1:29500"
	case wire.BecameExited:
		t.Exit = &fleet.Exit{Code: 1, Log: []string{"out of memory"}}
	case wire.BecameStopped, wire.BecameFailed:
		t.Released = g.chance(80)
	}
	instance := uint64(1)
	if n, ok := s.Node(r.Shards[rank].Node); ok {
		instance = n.Instance
	}
	return ReplicaTransitions{Node: r.Shards[rank].Node, Instance: instance, Items: []wire.Transition{t}}
}

// step picks what an agent would plausibly report of a replica, and now and then anything.
func (g *generator) step(r *fleet.Replica) string {
	all := []string{wire.BecameStarting, wire.BecameReady, wire.BecameExited, wire.BecameShut, wire.BecameWithdrawn, wire.BecameStopped, wire.BecameFailed, "odd"}
	switch {
	case g.chance(15):
		return pick(g, all)
	case r.State == fleet.Starting && r.Door == nil:
		return wire.BecameStarting
	case r.State == fleet.Starting:
		return pick(g, []string{wire.BecameReady, wire.BecameReady, wire.BecameFailed})
	case r.State == fleet.Ready:
		return wire.BecameExited
	default:
		return pick(g, []string{wire.BecameShut, wire.BecameWithdrawn, wire.BecameStopped, wire.BecameStopped})
	}
}

func (g *generator) replicaCommand(s *State) Command {
	r := g.replica(s)
	if r == nil {
		return g.register(s)
	}
	return pick(g, []Command{
		ReplicaStop{Replica: r.ID, Reason: "asked"}, ReplicaRestart{Replica: r.ID, Reason: "asked"}, ReplicaFail{Replica: r.ID, Reason: "restarts exhausted"},
		ReplicaWithdraw{Replica: r.ID, Order: r.Order, Reason: "its agent is silent"},
	})
}

func (g *generator) clusterCommand(s *State) Command {
	set := fleet.DefaultSettings()
	set.NodeGrace = fleet.Duration(g.rng.IntN(60)) * 1_000_000_000
	if s.Freeze() != nil && g.chance(80) {
		return FreezeSet{}
	}
	return pick(g, []Command{
		FreezeSet{}, FreezeSet{Freeze: &fleet.Freeze{Reason: "test"}}, SettingsSet{Settings: set},
		EpochRaise{Epoch: s.Cluster().Epoch + 1}, LevelRaise{Level: 1}, ServerForget{ID: "peer-1"},
		ServerAnnounce{Server: fleet.Server{ID: "peer-1", MaxLevel: g.rng.IntN(2)}},
	})
}
