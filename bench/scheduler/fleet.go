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

// applied adds what a plan places to the snapshot's replicas, as the state machine would.
func applied(s *scheduler.Snapshot, plan fleet.Plan, entry *int) int {
	placed := 0
	for _, item := range plan.Items {
		if item.Place == nil {
			continue
		}
		*entry++
		placed++
		s.Replicas = append(s.Replicas, &fleet.Replica{
			ID: fmt.Sprintf("r-1.%07d.1", *entry), Model: item.Place.Model, Generation: 1, State: fleet.Ready, Shards: item.Place.Shards,
		})
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
