package status

import (
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
	unclaimed
)

// heldOn notes what holds a card of a node: claims that are not proved released, whatever state their replica is in, and what Berth did not
// start.
func heldOn(n *fleet.Node, on []*fleet.Replica) map[string]bool {
	held := map[string]bool{}
	for _, r := range on {
		for _, s := range r.Shards {
			if s.Node != n.Name || s.Released {
				continue
			}
			for _, c := range s.Claims {
				held[c.GPU] = true
			}
		}
	}
	for _, u := range n.Unmanaged {
		for _, gpu := range u.GPUs {
			held[gpu] = true
		}
	}
	return held
}

func useOf(n *fleet.Node, g fleet.GPU, held map[string]bool) cardUse {
	switch {
	case g.Foreign || held[g.UUID]:
		return used
	case g.Health != fleet.Healthy:
		return unhealthy
	case n.State() != fleet.NodeReady:
		return withheld
	default:
		return unclaimed
	}
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
	case unclaimed:
		row.Free++
	}
}
