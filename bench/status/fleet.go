package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"time"

	"berth/admin"
	"berth/fleet"
	"berth/fleet/wire"
	"berth/fsm"
	"berth/peer/board"
)

const (
	cardsPerNode    = 8
	replicasPerNode = 6
	nodesPerFabric  = 32
	models          = 300
)

// rig is a state machine with two peers' boards and APIs: one leads, the other follows.
type rig struct {
	nodes   int
	machine *fsm.Machine
	index   uint64
	at      fleet.Time
	began   time.Time

	leader, follower *board.Board
	apis             map[string]*admin.Server
	end              func()
}

// newRig makes the fleet by the commands that make any fleet.
func newRig(nodes int) (*rig, error) {
	r := &rig{nodes: nodes, machine: fsm.New(), at: fleet.TimeOf(time.Now()), began: time.Now(), apis: map[string]*admin.Server{}}
	if err := r.apply(fsm.ClusterCreate{ID: "bench"}); err != nil {
		return nil, err
	}
	for i := range nodes {
		if err := r.apply(fsm.NodeRegister{Registration: registration(i, fleet.Healthy)}); err != nil {
			return nil, err
		}
	}
	if err := r.place(); err != nil {
		return nil, err
	}
	r.leader, r.follower = r.board("leader"), r.board("follower")
	_, r.end = r.leader.Lead(1)
	return r, nil
}

func (r *rig) apply(c fsm.Command) error {
	data, err := fsm.Encode(fsm.Meta{At: r.at, By: "bench"}, c)
	if err != nil {
		return err
	}
	r.index++
	out, err := r.machine.Apply(r.index, data)
	if err != nil {
		return err
	}
	if out.Err != nil {
		return fmt.Errorf("%s: %w", c.Kind(), out.Err)
	}
	for _, refused := range out.Items {
		if refused != nil {
			return fmt.Errorf("%s: %w", c.Kind(), refused)
		}
	}
	return nil
}

func nodeName(i int) string  { return fmt.Sprintf("gpu-%05d", i) }
func modelName(i int) string { return fmt.Sprintf("team-%02d/model-%03d", i%models%17, i%models) }

// registration is what the agent of a node says; the health of its last card, which nothing claims, is given.
func registration(i int, health fleet.Health) wire.Registration {
	r := wire.Registration{
		Version: wire.Version, Name: nodeName(i), ID: fmt.Sprint("id-", i), Instance: 1, Address: fmt.Sprintf("%s:7310", nodeName(i)), Level: 1, Release: "bench",
		Labels:    map[string]string{"rack": fmt.Sprint("r", i/8)},
		Engines:   []fleet.EngineOffer{{Driver: "sim", Version: "1.0.0", Hub: true}},
		Inventory: fleet.Inventory{Source: "file", Fabric: fmt.Sprintf("fabric-%04d", i/nodesPerFabric), CPUs: 128, Memory: 1024 * fleet.GiB},
	}
	class := []string{"h100-sxm-80gb", "h200-sxm-141gb", "a100-sxm-80gb", "l40s-48gb"}[i/nodesPerFabric%4]
	for g := range cardsPerNode {
		r.Inventory.GPUs = append(r.Inventory.GPUs, fleet.GPU{UUID: fmt.Sprintf("GPU-%05d-%d", i, g), Index: g, Class: class, Memory: 80 * fleet.GiB, Health: fleet.Healthy})
	}
	r.Inventory.GPUs[cardsPerNode-1].Health = health
	return r
}

// place applies the models, places six replicas of one card on each node and makes them ready.
func (r *rig) place() error {
	for i := range models {
		spec := fleet.DefaultedSpec()
		spec.Version, spec.Kind, spec.Name = fleet.SpecVersion, "model", modelName(i)
		spec.Engine = fleet.EngineSpec{Driver: "sim", Weights: "w"}
		spec.Placement.GPUsPerNode = 1
		least := r.nodes * replicasPerNode / models
		spec.Replicas = fleet.ReplicaCount{Min: least, Max: least + 1}
		if err := r.apply(fsm.ModelApply{Spec: spec}); err != nil {
			return err
		}
	}
	var plan fleet.Plan
	for i := range r.nodes {
		for g := range replicasPerNode {
			claims := []fleet.Claim{{GPU: fmt.Sprintf("GPU-%05d-%d", i, g)}}
			plan.Items = append(plan.Items, fleet.PlanItem{Place: &fleet.PlaceItem{Model: modelName(i*replicasPerNode + g), Generation: 1, Shards: []fleet.Shard{{Node: nodeName(i), Claims: claims}}}})
		}
		if len(plan.Items) >= 240 || i == r.nodes-1 {
			if err := r.apply(fsm.PlanApply{Plan: plan, Term: 1}); err != nil {
				return err
			}
			plan.Items = nil
		}
	}
	for i := range r.nodes {
		if err := r.report(i, wire.BecameStarting, wire.BecameReady); err != nil {
			return err
		}
	}
	return nil
}

// report makes every replica of a node go through these steps.
func (r *rig) report(node int, steps ...string) error {
	for _, to := range steps {
		c := fsm.ReplicaTransitions{Node: nodeName(node), Instance: 1}
		for x := range r.machine.State().ReplicasOn(nodeName(node)) {
			c.Items = append(c.Items, step(x, to))
		}
		if err := r.apply(c); err != nil {
			return err
		}
	}
	return nil
}

func step(x *fleet.Replica, to string) wire.Transition {
	return wire.Transition{Replica: x.ID, Order: x.Order, Start: x.Start, To: to, Shim: 1, Door: &fleet.Door{Address: x.Shards[0].Node + ":20000", Key: "k"}}
}

func (r *rig) board(id string) *board.Board {
	b := board.New(board.Config{Peer: id, State: r.machine.State, Clock: r.clock, Log: slog.New(slog.DiscardHandler)})
	c := core{rig: r, id: id}
	r.apis[id] = admin.New(admin.Config{Core: c, Board: b, Members: c, Snapshots: c, Planner: c, Version: "bench", Log: slog.New(slog.DiscardHandler)})
	return b
}

func (r *rig) clock() time.Duration { return 1000*time.Hour + time.Since(r.began) }

// core is the replicated side of a peer as far as status asks for it.
type core struct {
	admin.Members
	admin.Planner
	rig *rig
	id  string
}

func (c core) ID() string        { return c.id }
func (c core) State() *fsm.State { return c.rig.machine.State() }
func (c core) Knowledge() admin.Knowledge {
	return admin.Knowledge{CaughtUp: true, Leader: "leader", LeaderHTTP: "leader:7300", IsLeader: c.id == "leader", Term: 1}
}
func (c core) Propose(context.Context, fsm.Meta, fsm.Command) (fsm.Outcome, error) {
	return fsm.Outcome{}, fleet.Errorf(fleet.Internal, "the bench writes by itself")
}
func (c core) Verify(context.Context) error              { return nil }
func (c core) WaitApplied(context.Context, uint64) error { return nil }
func (c core) RestoreSnapshot(context.Context, io.Reader, bool) (wire.SnapshotInfo, error) {
	return wire.SnapshotInfo{}, nil
}
