package main

import (
	"fmt"

	"berth/fleet"
	"berth/scheduler"
)

// planner is Berth's own. A thousandth of a GPU is a MiB of a card of 1,000 MiB, and a thousandth of a core is a CPU.
type planner struct {
	placer  *scheduler.Placer
	history scheduler.History
}

func newPlanner(machines []machine, specs []string) policy {
	var s scheduler.Snapshot
	for i := range machines {
		s.Nodes = append(s.Nodes, nodeOf(&machines[i], specs))
	}
	s.Asked = (&scheduler.History{}).Asked()
	return &planner{placer: scheduler.NewPlacer(s)}
}

// nodeOf writes a machine down as Berth knows one. The trace's sets of GPU models say no preference, so each set is a label of the nodes that are in it.
func nodeOf(m *machine, specs []string) *fleet.Node {
	n := &fleet.Node{Name: m.name, Instance: 1, Labels: map[string]string{}, Engines: []fleet.EngineOffer{{Driver: "sim"}}}
	n.Inventory = fleet.Inventory{CPUs: m.cpu, Memory: fleet.Bytes(m.memory) * fleet.MiB}
	for i := range m.gpus {
		n.Inventory.GPUs = append(n.Inventory.GPUs, fleet.GPU{
			UUID: fmt.Sprint(i), Index: i, Class: m.model, Memory: card * fleet.MiB, Health: fleet.Healthy,
		})
	}
	for _, spec := range specs {
		if m.allows(spec) {
			n.Labels[spec] = "yes"
		}
	}
	return n
}

func specOf(t *task) *fleet.ModelSpec {
	spec := &fleet.ModelSpec{Name: "task", Engine: fleet.EngineSpec{Driver: "sim"}}
	spec.Placement = fleet.PlacementSpec{Nodes: 1, CPUs: t.cpu, Memory: fleet.Bytes(t.memory) * fleet.MiB}
	if t.part() {
		spec.Placement.GPUShare = fleet.Bytes(t.milli) * fleet.MiB
	} else {
		spec.Placement.GPUsPerNode = t.gpus
	}
	if t.spec != "" {
		spec.Placement.Require = map[string]string{t.spec: "yes"}
	}
	return spec
}

func (p *planner) place(t *task) bool {
	spec := specOf(t)
	p.history.Ask(spec, 1)
	p.placer.Asked(p.history.Asked())
	_, ok := p.placer.Place(spec)
	return ok
}
