package status

import (
	"cmp"
	"slices"

	"berth/fleet/wire"
)

// fabrics counts nodes by fabric, and those of them that are whole. Rows are kept in order, so that reading them is copying them.
type fabrics struct{ rows []fabricRow }

type fabricRow struct {
	name         string // empty: unknown
	nodes, whole int
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
// joined, so the largest block among them is one node.
func (f *fabrics) counts() []wire.FabricCounts {
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
