package status

import (
	"slices"

	"berth/fleet"
	"berth/fleet/wire"
)

// nodePart is what one node counts for.
type nodePart struct {
	state    fleet.NodeState
	fabric   string
	whole    bool               // ready, uncordoned, with every card healthy and free
	classes  []wire.ClassCounts // each class once
	replicas int                // with a shard there
	issues   []issue
}

// partOfNode counts a node with the replicas that have a shard on it.
func partOfNode(n *fleet.Node, on []*fleet.Replica) nodePart {
	p := nodePart{state: n.State(), fabric: n.Fabric(), replicas: len(on), issues: nodeIssues(n, len(on))}
	held, free := heldOn(n, on), 0
	for _, g := range n.Inventory.GPUs {
		use := useOf(n, g, held)
		if use == unclaimed {
			free++
		}
		count(rowOf(&p.classes, n.Class(g)), use)
	}
	p.whole = free > 0 && free == len(n.Inventory.GPUs)
	return p
}

func rowOf(rows *[]wire.ClassCounts, class string) *wire.ClassCounts {
	i := slices.IndexFunc(*rows, func(c wire.ClassCounts) bool { return c.Class == class })
	if i < 0 {
		i = len(*rows)
		*rows = append(*rows, wire.ClassCounts{Class: class})
	}
	return &(*rows)[i]
}

func (p nodePart) free() int {
	n := 0
	for _, c := range p.classes {
		n += c.Free
	}
	return n
}

// replicaPart is what one replica counts for.
type replicaPart struct {
	model  string
	state  fleet.ReplicaState
	lost   bool
	able   bool // nothing but its state keeps it from serving
	gpus   int  // cards that it holds, in whole or in part
	shards []fleet.Shard
	issues []issue
}

// partOfReplica counts a replica; whether its nodes can be reached is asked for.
func partOfReplica(r *fleet.Replica, reaches func(node string) bool) replicaPart {
	p := replicaPart{model: r.Model, state: r.State, gpus: gpus(r), shards: r.Shards, issues: replicaIssues(r)}
	for _, s := range r.Shards {
		p.lost = p.lost || !s.Released && !reaches(s.Node)
	}
	p.able = !p.lost && !slices.Contains(r.Marks, deviceGone)
	return p
}

// modelPart is what one model counts for.
type modelPart struct {
	row       *fleet.Model
	satisfied bool
}

// deviceGone is the mark of a replica whose card its node no longer reports.
const deviceGone = "device gone"

// gpus is how many cards a replica holds, in whole or in part.
func gpus(r *fleet.Replica) int {
	n := 0
	for _, s := range r.Shards {
		n += len(s.Claims)
	}
	return n
}
