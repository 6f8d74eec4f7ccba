package status

import (
	"cmp"
	"maps"
	"slices"

	"berth/fleet"
	"berth/fleet/wire"
)

// cardUse is what one card counts as; every card counts as exactly one.
type cardUse int

// Uses in the order in which they are decided: what holds a card wins over what is wrong with it, and that over where it is.
const (
	used      cardUse = iota // claimed, whole or in part, or held by something that Berth did not start
	unhealthy                // or its health is not known
	withheld                 // its node is cordoned, draining or unreachable
	free
)

type cardKey struct{ node, gpu string }

// cards answers what each card counts as.
type cards struct{ held map[cardKey]bool }

// newCards notes what holds a card: claims that are not proved released, whatever state their replica is in, and what Berth did not start.
func newCards(nodes []*fleet.Node, replicas []*fleet.Replica) cards {
	held := map[cardKey]bool{}
	for _, r := range replicas {
		for _, s := range r.Shards {
			for _, c := range s.Claims {
				if !s.Released {
					held[cardKey{s.Node, c.GPU}] = true
				}
			}
		}
	}
	for _, n := range nodes {
		for _, u := range n.Unmanaged {
			for _, gpu := range u.GPUs {
				held[cardKey{n.Name, gpu}] = true
			}
		}
	}
	return cards{held}
}

func (c cards) use(n *fleet.Node, g fleet.GPU) cardUse {
	switch {
	case g.Foreign || c.held[cardKey{n.Name, g.UUID}]:
		return used
	case g.Health != fleet.Healthy:
		return unhealthy
	case n.State() != fleet.NodeReady:
		return withheld
	default:
		return free
	}
}

func (c cards) free(n *fleet.Node) int {
	count := 0
	for _, g := range n.Inventory.GPUs {
		if c.use(n, g) == free {
			count++
		}
	}
	return count
}

// classes counts every card that a node reports once, by class: total = used + free + unhealthy + withheld.
func (c cards) classes(nodes []*fleet.Node) []wire.ClassCounts {
	rows := map[string]*wire.ClassCounts{}
	for _, n := range nodes {
		for _, g := range n.Inventory.GPUs {
			class := n.Class(g)
			if rows[class] == nil {
				rows[class] = &wire.ClassCounts{Class: class}
			}
			count(rows[class], c.use(n, g))
		}
	}
	out := make([]wire.ClassCounts, 0, len(rows))
	for _, class := range slices.Sorted(maps.Keys(rows)) {
		out = append(out, *rows[class])
	}
	return out
}

func count(row *wire.ClassCounts, u cardUse) {
	row.Total++
	switch u {
	case used:
		row.Used++
	case unhealthy:
		row.Unhealthy++
	case withheld:
		row.Withheld++
	case free:
		row.Free++
	}
}

// fabrics counts nodes by fabric, and those of them that are whole: ready, uncordoned, with every card healthy and free. Whole nodes of a known
// fabric are one block; nodes of unknown fabric are never joined, so the largest block among them is one node.
func (c cards) fabrics(nodes []*fleet.Node) []wire.FabricCounts {
	rows := map[string]*wire.FabricCounts{}
	for _, n := range nodes {
		name := n.Fabric()
		if rows[name] == nil {
			rows[name] = &wire.FabricCounts{}
			if name != "" {
				rows[name].Fabric = &name
			}
		}
		rows[name].Nodes++
		if cards := len(n.Inventory.GPUs); cards > 0 && c.free(n) == cards {
			rows[name].FreeNodes++
		}
	}
	out := make([]wire.FabricCounts, 0, len(rows))
	for _, name := range slices.SortedFunc(maps.Keys(rows), unknownLast) {
		row := *rows[name]
		row.LargestFreeBlock = row.FreeNodes
		if name == "" {
			row.LargestFreeBlock = min(1, row.FreeNodes)
		}
		out = append(out, row)
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
