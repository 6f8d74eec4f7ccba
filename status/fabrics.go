package status

import (
	"cmp"
	"slices"

	"berth/fleet/wire"
)

// fabrics counts nodes by fabric, and those of them that are whole. Rows are kept in order, and what was read of them last as long as it is true:
// their number grows with the fleet.
type fabrics struct {
	rows    []fabricRow
	version uint64 // of the rows
	read    []wire.FabricCounts
	readAt  uint64 // version that was read
}

type fabricRow struct {
	name         string // empty: unknown
	nodes, whole int
}

// replace counts a node anew: what it was, if it was there, and what it is.
func (f *fabrics) replace(was, is *nodePart) {
	if was != nil && is != nil && was.fabric == is.fabric && was.whole == is.whole {
		return
	}
	if f.version++; was != nil {
		f.add(was.fabric, was.whole, -1)
	}
	if is != nil {
		f.add(is.fabric, is.whole, 1)
	}
}

func (f *fabrics) add(name string, whole bool, sign int) {
	i, ok := slices.BinarySearchFunc(f.rows, name, func(r fabricRow, name string) int { return unknownLast(r.name, name) })
	if !ok {
		f.rows = slices.Insert(f.rows, i, fabricRow{name: name})
	}
	row := &f.rows[i]
	row.nodes += sign
	if whole {
		row.whole += sign
	}
	if row.nodes == 0 {
		f.rows = slices.Delete(f.rows, i, i+1)
	}
}

// counts gives a row a fabric, those of unknown fabric last. Whole nodes of a known fabric are one block; nodes of unknown fabric are never
// joined, so the largest block among them is one node. The rows are not to be changed.
func (f *fabrics) counts() []wire.FabricCounts {
	if f.read == nil || f.readAt != f.version {
		f.read, f.readAt = f.count(), f.version
	}
	return f.read
}

func (f *fabrics) count() []wire.FabricCounts {
	out := make([]wire.FabricCounts, len(f.rows))
	for i := range f.rows {
		r := f.rows[i]
		out[i] = wire.FabricCounts{Nodes: r.nodes, FreeNodes: r.whole, LargestFreeBlock: r.whole}
		if r.name == "" {
			out[i].LargestFreeBlock = min(1, r.whole)
		} else {
			out[i].Fabric = &r.name
		}
	}
	return out
}

func unknownLast(a, b string) int {
	switch {
	case a == b:
		return 0
	case a == "":
		return 1
	case b == "":
		return -1
	default:
		return cmp.Compare(a, b)
	}
}
