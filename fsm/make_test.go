package fsm

import (
	"fmt"
	"strings"
	"testing"

	"berth/fleet"
	"berth/fleet/wire"
)

// Makers of commands, for tests that are not scripts.

func applyAt(t testing.TB, m *Machine, index uint64, meta Meta, c Command) Outcome {
	t.Helper()
	data, err := Encode(meta, c)
	if err != nil {
		t.Fatal(err)
	}
	o, err := m.Apply(index, data)
	if err != nil {
		t.Fatal(err)
	}
	return o
}

func slicesErr(items []*fleet.Error) *fleet.Error {
	for _, err := range items {
		if err != nil {
			return err
		}
	}
	return nil
}

func register(node, fabric string, gpus int) NodeRegister {
	reg := wire.Registration{
		Version: 1, Name: node, ID: "id-" + node, Instance: 1, Address: node + ":7310", EngineAddress: node,
		Labels: map[string]string{"zone": "a"}, Inventory: fleet.Inventory{Source: "file", Fabric: fabric, CPUs: 64, Memory: 512 * fleet.GiB},
	}
	for i := range gpus {
		reg.Inventory.GPUs = append(reg.Inventory.GPUs, fleet.GPU{UUID: fmt.Sprintf("GPU-%s-%d", node, i), Index: i, Class: "h100", Memory: 80 * fleet.GiB, Health: fleet.Healthy})
	}
	return NodeRegister{Registration: reg}
}

func model(name string, nodes, gpus int) fleet.ModelSpec {
	sp := fleet.DefaultedSpec()
	sp.Version, sp.Kind, sp.Name = 1, "model", name
	sp.Engine = fleet.EngineSpec{Driver: "sim", Weights: "weights/<of>/" + name}
	sp.Placement.Nodes, sp.Placement.GPUsPerNode = nodes, gpus
	sp.Replicas = fleet.ReplicaCount{Min: 1, Max: 10_000}
	return sp
}

// placeItem places a replica; each card is written NODE/NUMBER, and cards of one node are one shard.
func placeItem(name string, generation uint64, cards ...string) fleet.PlanItem {
	p := fleet.PlaceItem{Model: name, Generation: generation}
	for _, card := range cards {
		node, number, _ := strings.Cut(card, "/")
		if n := len(p.Shards); n == 0 || p.Shards[n-1].Node != node {
			p.Shards = append(p.Shards, fleet.Shard{Node: node})
		}
		s := &p.Shards[len(p.Shards)-1]
		s.Claims = append(s.Claims, fleet.Claim{GPU: "GPU-" + node + "-" + number})
	}
	return fleet.PlanItem{Place: &p}
}
