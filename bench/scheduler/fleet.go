package main

import (
	"fmt"
	"slices"

	"berth/fleet"
	"berth/scheduler"
)

const class = "h100-sxm-80gb"

// newFleet has so many empty nodes of 8 GPUs, in fabrics of 16.
func newFleet(nodes int) scheduler.Snapshot {
	var s scheduler.Snapshot
	for i := range nodes {
		n := &fleet.Node{Name: fmt.Sprintf("n%05d", i), Instance: 1}
		n.Inventory = fleet.Inventory{Fabric: fmt.Sprintf("f%04d", i/16), CPUs: 64, Memory: fleet.TiB}
		n.Engines = []fleet.EngineOffer{{Driver: "vllm", Hub: true, SpanNodes: true}}
		for g := range 8 {
			n.Inventory.GPUs = append(n.Inventory.GPUs, fleet.GPU{
				UUID: fmt.Sprintf("%s-%d", n.Name, g), Index: g, Class: class, Memory: 80 * fleet.GiB, Health: fleet.Healthy,
			})
		}
		s.Nodes = append(s.Nodes, n)
	}
	return s
}

func newModel(name string, nodes, gpus, want int) *fleet.Model {
	spec := fleet.DefaultedSpec()
	spec.Name, spec.Engine = name, fleet.EngineSpec{Driver: "vllm", Weights: "org/model"}
	spec.Placement = fleet.PlacementSpec{Nodes: nodes, GPUsPerNode: gpus, Classes: []string{class}, CPUs: 1}
	return &fleet.Model{Spec: spec, Generation: 1, Want: want}
}

// follower is the state as a leader follows it: its rows, and what has changed since the last plan.
type follower struct {
	scheduler.Snapshot
	rows    scheduler.Rows
	changes *scheduler.Changes
	entry   int
}

func follow(s scheduler.Snapshot) *follower {
	f := &follower{Snapshot: s, changes: new(scheduler.Changes)}
	for _, m := range s.Models {
		f.changes.Models = append(f.changes.Models, scheduler.Row[fleet.Model]{New: m})
	}
	for _, n := range s.Nodes {
		f.changes.Nodes = append(f.changes.Nodes, scheduler.Row[fleet.Node]{New: n})
	}
	return f
}

// next is the snapshot of what has changed until now.
func (f *follower) next() scheduler.Snapshot {
	f.rows.Apply(f.changes)
	s := f.Snapshot
	s.Models, s.Nodes, s.Replicas, s.Since = f.rows.Models, f.rows.Nodes, f.rows.Replicas, f.changes
	f.changes = new(scheduler.Changes)
	return s
}

// wants raises what the first model wants by one.
func (f *follower) wants() {
	more := *f.rows.Models[0]
	more.Want++
	f.changes.Models = append(f.changes.Models, scheduler.Row[fleet.Model]{Old: f.rows.Models[0], New: &more})
}

// applies adds what a plan places, as the state machine would.
func (f *follower) applies(plan fleet.Plan) int {
	placed := 0
	for _, item := range plan.Items {
		if item.Place == nil {
			continue
		}
		f.entry++
		placed++
		f.changes.Replicas = append(f.changes.Replicas, scheduler.Row[fleet.Replica]{New: &fleet.Replica{
			ID: fmt.Sprintf("r-1.%07d.1", f.entry), Model: item.Place.Model, Generation: 1, State: fleet.Ready, Shards: item.Place.Shards,
		}})
	}
	return placed
}

// nodesUsed counts the nodes on which anything is placed.
func nodesUsed(placements [][]fleet.Shard) int {
	var names []string
	for _, shards := range placements {
		for _, s := range shards {
			names = append(names, s.Node)
		}
	}
	slices.Sort(names)
	return len(slices.Compact(names))
}
