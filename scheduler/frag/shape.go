// Package frag measures how much of a node's free room is of no use to what a cluster is asked for. It knows cards, CPUs and memory, and the shapes
// that were asked for with how often; it knows no model, no plan and no order of preference.
package frag

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"berth/fleet"
)

// Shape is what one shard of a replica asks of a node.
type Shape struct {
	Driver    string
	Placement fleet.PlacementSpec // Prefer and Spread say nothing here
}

// Asked is a shape and how often it was asked for.
type Asked struct {
	Shape Shape
	Times int
}

// Most is how many shapes are looked at, those asked for most often: it bounds what a decision costs.
const Most = 128

// Key is equal for shapes that ask for the same.
func (s Shape) Key() string {
	p := &s.Placement
	var b strings.Builder
	fmt.Fprintf(&b, "%s %d %d %d %d %d %d", s.Driver, min(p.Nodes, 2), p.GPUsPerNode, p.GPUShare, p.GPUMemory, p.CPUs, p.Memory)
	classes := slices.Sorted(slices.Values(p.Classes))
	fmt.Fprintf(&b, " %q", classes)
	for _, k := range slices.Sorted(maps.Keys(p.Require)) {
		fmt.Fprintf(&b, " %q=%q", k, p.Require[k])
	}
	return b.String()
}

// Top returns the Most shapes that were asked for most often, of equal ones the earlier; shapes without cards leave no fragments and are left out.
func Top(asked []Asked) []Asked {
	out := slices.DeleteFunc(slices.Clone(asked), func(a Asked) bool {
		return a.Times <= 0 || a.Shape.Placement.GPUsPerNode == 0 && a.Shape.Placement.GPUShare == 0
	})
	slices.SortStableFunc(out, func(a, b Asked) int { return cmp.Compare(b.Times, a.Times) })
	return out[:min(len(out), Most)]
}
