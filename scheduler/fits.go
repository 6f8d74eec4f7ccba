package scheduler

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"berth/fleet"
	"berth/scheduler/capacity"
)

// Fits says whether the registered nodes, whatever their state, could ever hold one replica of the spec: every node ready, every card healthy and
// empty. It returns nil when they could, or when there are no nodes yet; otherwise an Unplaceable error whose hint is the nearest shape that could.
func Fits(spec fleet.ModelSpec, nodes []*fleet.Node) error {
	if len(nodes) == 0 || fitsEmpty(spec, emptied(nodes)) {
		return nil
	}
	m := emptied(nodes)
	f := newFinder(&ground{cards: m}, &spec, nil)
	err := fleet.Errorf(fleet.Unplaceable, "no registered node could ever hold a replica of %s: it %s; %s", spec.Name, f.largest(), sentence(len(nodes), f.reasons()))
	if near := nearest(spec, m); near != "" {
		return err.WithHint("%s", near)
	}
	return err
}

// emptied lays out the nodes as if all were ready and nothing ran on them.
func emptied(nodes []*fleet.Node) *capacity.Map {
	out := make([]*fleet.Node, 0, len(nodes))
	for _, n := range nodes {
		c := *n
		c.Admin, c.Unreachable, c.Unmanaged, c.Instance = fleet.Schedulable, false, nil, max(1, n.Instance)
		c.Inventory.GPUs = slices.Clone(n.Inventory.GPUs)
		for i := range c.Inventory.GPUs {
			c.Inventory.GPUs[i].Health, c.Inventory.GPUs[i].Foreign = fleet.Healthy, false
		}
		out = append(out, &c)
	}
	return capacity.New(out, nil, nil)
}

func fitsEmpty(spec fleet.ModelSpec, m *capacity.Map) bool {
	_, ok := newFinder(&ground{cards: m}, &spec, nil).find()
	return ok
}

// relaxation changes one thing of a spec, step by step, until it fits; it returns what would be right, or "".
type relaxation func(spec fleet.ModelSpec, m *capacity.Map) string

// nearest tries to change one thing at a time, what is least dear to an operator first.
func nearest(spec fleet.ModelSpec, m *capacity.Map) string {
	for _, relax := range []relaxation{moreNodes, otherClass, fewerGPUs, fewerNodes, smallerShare, lessMemory, lessOfTheHost, fewerLabels, otherVersion, otherDriver, hubOrRoot, fewerFlags} {
		if hint := relax(spec, m); hint != "" {
			return hint
		}
	}
	return ""
}

// moreNodes keeps the number of cards and spreads them over more nodes of a fabric.
func moreNodes(spec fleet.ModelSpec, m *capacity.Map) string {
	total := spec.Placement.GPUs()
	for n := spec.Placement.Nodes + 1; n <= min(total, 64); n++ {
		if total%n != 0 {
			continue
		}
		s := spec
		s.Placement.Nodes, s.Placement.GPUsPerNode = n, total/n
		if fitsEmpty(s, m) {
			return fmt.Sprintf("nodes: %d with gpus_per_node: %d would fit", n, total/n)
		}
	}
	return ""
}

func fewerGPUs(spec fleet.ModelSpec, m *capacity.Map) string {
	for g := spec.Placement.GPUsPerNode - 1; g > 0; g-- {
		s := spec
		s.Placement.GPUsPerNode = g
		if fitsEmpty(s, m) {
			return fmt.Sprintf("gpus_per_node: %d would fit", g)
		}
	}
	return ""
}

func fewerNodes(spec fleet.ModelSpec, m *capacity.Map) string {
	for n := spec.Placement.Nodes - 1; n > 0; n-- {
		s := spec
		s.Placement.Nodes = n
		if fitsEmpty(s, m) {
			return fmt.Sprintf("nodes: %d would fit", n)
		}
	}
	return ""
}

func otherClass(spec fleet.ModelSpec, m *capacity.Map) string {
	if len(spec.Placement.Classes) == 0 {
		return ""
	}
	have := everyClass(m.Hosts)
	var would []string
	for _, class := range have {
		s := spec
		s.Placement.Classes = []string{class}
		if fitsEmpty(s, m) {
			would = append(would, class)
		}
	}
	known := slices.ContainsFunc(spec.Placement.Classes, func(c string) bool { return slices.Contains(have, c) })
	switch {
	case len(would) > 0:
		return fmt.Sprintf("classes: [%s] would fit", strings.Join(would, ", "))
	case !known && len(have) > 0:
		return fmt.Sprintf("no node has that class; there are %s", strings.Join(have, ", "))
	default:
		return ""
	}
}

// smallerShare and lessMemory offer the sizes that the fleet's cards have, the largest that fits.
func smallerShare(spec fleet.ModelSpec, m *capacity.Map) string {
	for _, size := range cardSizes(m) {
		s := spec
		if s.Placement.GPUShare = size; size < spec.Placement.GPUShare && fitsEmpty(s, m) {
			return fmt.Sprintf("gpu_share: %s would fit", size)
		}
	}
	return ""
}

func lessMemory(spec fleet.ModelSpec, m *capacity.Map) string {
	for _, size := range cardSizes(m) {
		s := spec
		if s.Placement.GPUMemory = size; size < spec.Placement.GPUMemory && fitsEmpty(s, m) {
			return fmt.Sprintf("gpu_memory: %s would fit", size)
		}
	}
	return ""
}

func cardSizes(m *capacity.Map) []fleet.Bytes {
	sizes := map[fleet.Bytes]bool{}
	for _, h := range m.Hosts {
		for i := range h.Cards {
			sizes[h.Cards[i].GPU.Memory] = true
		}
	}
	out := slices.Sorted(maps.Keys(sizes))
	slices.Reverse(out)
	return out
}

func lessOfTheHost(spec fleet.ModelSpec, m *capacity.Map) string {
	s := spec
	if s.Placement.CPUs, s.Placement.Memory = 0, 0; spec.Placement.CPUs == 0 && spec.Placement.Memory == 0 || !fitsEmpty(s, m) {
		return ""
	}
	var cpus int
	var memory fleet.Bytes
	for _, h := range m.Hosts {
		cpus, memory = max(cpus, h.CPUs), max(memory, h.Memory)
	}
	return fmt.Sprintf("fewer cpus or less memory would fit; the largest node has %d and %s", cpus, memory)
}

func fewerLabels(spec fleet.ModelSpec, m *capacity.Map) string {
	keys := slices.Sorted(maps.Keys(spec.Placement.Require))
	for _, drop := range append(slices.Clone(keys), "") {
		s := spec
		s.Placement.Require = maps.Clone(spec.Placement.Require)
		if delete(s.Placement.Require, drop); drop == "" {
			s.Placement.Require, drop = nil, strings.Join(keys, " and ")
		}
		if len(keys) > 0 && fitsEmpty(s, m) {
			return fmt.Sprintf("it would fit without require: %s", drop)
		}
	}
	return ""
}

func otherVersion(spec fleet.ModelSpec, m *capacity.Map) string {
	s := spec
	if s.Engine.Version = ""; spec.Engine.Version == "" || !fitsEmpty(s, m) {
		return ""
	}
	return fmt.Sprintf("it would fit with another version; nodes offer %s %s", spec.Engine.Driver, strings.Join(offered(m, func(o fleet.EngineOffer) string {
		if o.Driver != spec.Engine.Driver {
			return ""
		}
		return o.Version
	}), ", "))
}

func otherDriver(spec fleet.ModelSpec, m *capacity.Map) string {
	all := offered(m, func(o fleet.EngineOffer) string { return o.Driver })
	if slices.Contains(all, spec.Engine.Driver) || len(all) == 0 {
		return ""
	}
	return fmt.Sprintf("no node offers %s; nodes offer %s", spec.Engine.Driver, strings.Join(all, ", "))
}

// offered collects something of every engine that a node offers, in order, each once.
func offered(m *capacity.Map, of func(fleet.EngineOffer) string) []string {
	set := map[string]bool{}
	for _, h := range m.Hosts {
		for _, o := range h.Node.Engines {
			if v := of(o); v != "" {
				set[v] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(set))
}

func hubOrRoot(spec fleet.ModelSpec, m *capacity.Map) string {
	s := spec
	if s.Engine.Weights = ""; spec.Engine.Weights == "" || !fitsEmpty(s, m) {
		return ""
	}
	roots := map[string]bool{}
	for _, h := range m.Hosts {
		for _, root := range h.Node.ModelRoots {
			roots[root] = true
		}
	}
	if len(roots) == 0 {
		return "no node that could hold it can have these weights, and none has a model root"
	}
	return "no node that could hold it can have these weights; model roots are " + strings.Join(slices.Sorted(maps.Keys(roots)), ", ")
}

func fewerFlags(spec fleet.ModelSpec, m *capacity.Map) string {
	s := spec
	if s.Engine.Args = nil; len(spec.Engine.Args) == 0 || !fitsEmpty(s, m) {
		return ""
	}
	return "it would fit without engine.args; a node's configuration lists what it allows"
}
