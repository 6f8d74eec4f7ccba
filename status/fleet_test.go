package status

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
	"time"

	"berth/fleet"
)

const (
	h100 = "h100-80"
	l40s = "l40s-48"
	mig  = "h100-mig-1g.10gb"
)

func node(name, fabric, class string, gpus int) *fleet.Node {
	n := &fleet.Node{Name: name, Inventory: fleet.Inventory{Fabric: fabric}}
	for i := range gpus {
		n.Inventory.GPUs = append(n.Inventory.GPUs, gpu(name, class, i))
	}
	return n
}

func gpu(node, class string, index int) fleet.GPU {
	return fleet.GPU{UUID: fmt.Sprintf("%s-%s-%d", node, class, index), Index: index, Class: class, Memory: 80 * fleet.GiB, Health: fleet.Healthy}
}

// replica claims whole cards, in order, from the first of the node.
func replica(id, model string, n *fleet.Node, first, gpus int) *fleet.Replica {
	s := fleet.Shard{Node: n.Name}
	for _, g := range n.Inventory.GPUs[first : first+gpus] {
		s.Claims = append(s.Claims, fleet.Claim{GPU: g.UUID})
	}
	return &fleet.Replica{ID: id, Model: model, Generation: 1, State: fleet.Ready, Shards: []fleet.Shard{s}}
}

func model(name string, least int) *fleet.Model {
	spec := fleet.DefaultedSpec()
	spec.Name, spec.Replicas = name, fleet.ReplicaCount{Min: least, Max: max(1, least)}
	return &fleet.Model{Spec: spec, Generation: 1, Want: least}
}

// healthy returns an input with nothing wrong in its frame.
func healthy() Input {
	return Input{
		Cluster: "c", Leader: "peer-1", CaughtUp: true, Now: 1_700_000_000_000, Settings: fleet.DefaultSettings(),
		Interval: time.Second, Listening: time.Hour, Idle: map[string]Idle{}, Heartbeats: map[string]time.Duration{},
	}
}

// with adds nodes that were heard a moment ago.
func (in *Input) with(nodes ...*fleet.Node) {
	for _, n := range nodes {
		in.Nodes = append(in.Nodes, n)
		in.Heartbeats[n.Name] = 300 * time.Millisecond
	}
}

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

// randomInput returns a fleet in any condition: several classes on a node, shared, foreign and unmanaged cards, overcommitted, half released,
// with claims on cards and nodes that are gone.
func randomInput(r *rand.Rand) Input {
	in := healthy()
	for i := range r.IntN(8) {
		in.with(randomNode(r, i))
	}
	for i := range r.IntN(12) {
		in.Replicas = append(in.Replicas, randomReplica(r, in.Nodes, i))
	}
	for i := range r.IntN(4) {
		in.Models = append(in.Models, randomModel(r, i))
	}
	return in
}

func randomNode(r *rand.Rand, i int) *fleet.Node {
	n := node(fmt.Sprint("n", i), pick(r, "", "fa", "fb"), h100, 0)
	for j := range r.IntN(9) {
		g := gpu(n.Name, pick(r, h100, l40s, mig), j)
		g.Health = pick(r, fleet.Healthy, fleet.Healthy, fleet.Healthy, fleet.Unhealthy, fleet.HealthUnknown)
		g.Foreign = r.IntN(10) == 0
		if n.Inventory.GPUs = append(n.Inventory.GPUs, g); r.IntN(12) == 0 {
			n.Unmanaged = append(n.Unmanaged, fleet.Unmanaged{What: "x", GPUs: []string{g.UUID, "gone"}})
		}
	}
	n.Admin = pick(r, fleet.Schedulable, fleet.Schedulable, fleet.Cordoned, fleet.Draining)
	n.Unreachable = r.IntN(6) == 0
	switch r.IntN(12) {
	case 0:
		n.Overrides = map[string]string{"class": l40s}
	case 1:
		n.Overrides = map[string]string{"fabric": ""}
	case 2:
		n.Drain = &fleet.NodeDrain{State: "timed_out"}
	}
	return n
}

func randomModel(r *rand.Rand, i int) *fleet.Model {
	m := model(fmt.Sprint("m", i), r.IntN(3))
	m.Deleting = r.IntN(5) == 0
	return m
}

func randomReplica(r *rand.Rand, nodes []*fleet.Node, i int) *fleet.Replica {
	rep := &fleet.Replica{ID: fmt.Sprint("r-", i), Model: fmt.Sprint("m", r.IntN(3)), State: pick(r, fleet.Ready, fleet.Starting, fleet.DrainingDown, fleet.Failed)}
	if r.IntN(8) == 0 {
		rep.Marks = []string{pick(r, deviceGone, "stuck")}
	}
	for _, n := range append([]*fleet.Node{{Name: "forgotten"}}, nodes...) {
		if r.IntN(3) != 0 {
			continue
		}
		s := fleet.Shard{Node: n.Name, Released: r.IntN(4) == 0, Claims: []fleet.Claim{{GPU: "gone"}}}
		for _, g := range n.Inventory.GPUs {
			if r.IntN(3) == 0 {
				s.Claims = append(s.Claims, fleet.Claim{GPU: g.UUID, Share: pick(r, 0, fleet.GiB)})
			}
		}
		rep.Shards = append(rep.Shards, s)
	}
	return rep
}

func pick[T any](r *rand.Rand, from ...T) T { return from[r.IntN(len(from))] }
