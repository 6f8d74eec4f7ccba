// Package capacity says, card by card, what of a fleet is claimed and what is left, and lets a planner claim and release on paper. It knows no
// model's wishes and no order of preference, no clock and no log.
package capacity

import (
	"cmp"
	"slices"

	"berth/fleet"
)

// Card is one GPU and what is claimed of it.
type Card struct {
	GPU    *fleet.GPU // of the node's inventory
	Class  string
	Whole  int         // whole-card claims; more than one is overcommitted
	Shares int         // claims of a part
	Shared fleet.Bytes // sum of those parts
	Held   bool        // foreign or unmanaged processes hold it
}

// Claimed says whether any replica holds the card or a part of it.
func (c *Card) Claimed() bool { return c.Whole > 0 || c.Shares > 0 }

// Usable says whether the card may take a claim as far as its own condition goes.
func (c *Card) Usable() bool { return c.GPU.Health == fleet.Healthy && !c.Held }

// Idle says whether the card is in good order and nothing is claimed of it.
func (c *Card) Idle() bool { return c.Usable() && !c.Claimed() }

// Room returns how much memory claims of a part can still take; 0 for a card that takes none.
func (c *Card) Room() fleet.Bytes {
	if !c.Usable() || c.Whole > 0 {
		return 0
	}
	return max(0, c.GPU.Memory-c.Shared)
}

// Host is one node with its cards in the order of their index. A search reads every host, so what it reads lies in the struct itself.
type Host struct {
	Node    *fleet.Node
	Index   int    // in Map.Hosts
	Version uint32 // raised by every change of what is below

	Fabric string // "" is unknown
	Ready  bool   // neither cordoned nor draining nor unreachable, and registered
	Cards  []Card
	CPUs   int         // not claimed; negative when overcommitted
	Memory fleet.Bytes // of the host, not claimed

	idle   int       // cards in good order with nothing claimed
	first  classIdle // of which of the first card's class
	other  []classIdle
	fabric *fabric
}

// fabric is what the hosts of one interconnect domain have in common.
type fabric struct {
	hosts []*Host
	whole int
}

type classIdle struct {
	class string
	idle  int
}

// Idle returns how many cards of a class are in good order with nothing claimed, whatever the state of the node.
func (h *Host) Idle(class string) int {
	if h.first.class == class {
		return h.first.idle
	}
	for i := range h.other {
		if h.other[i].class == class {
			return h.other[i].idle
		}
	}
	return 0
}

// Whole says whether the node is ready and has cards, all of them healthy and free.
func (h *Host) Whole() bool { return h.Ready && h.idle == len(h.Cards) && h.idle > 0 }

// WholeInFabric returns how many whole hosts the host's fabric has, up to a few more than ManyWhole.
func (h *Host) WholeInFabric() int { return min(h.fabric.whole, ManyWhole+1) }

// Peers returns the hosts of the host's fabric, itself among them.
func (h *Host) Peers() []*Host { return h.fabric.hosts }

// fill lays out the node's cards in the given space, which has room for all of them.
func (h *Host) fill(space []Card) {
	n := h.Node
	h.Fabric, h.Ready = n.Fabric(), n.State() == fleet.NodeReady && !n.Awaited()
	h.CPUs, h.Memory = n.Inventory.CPUs, n.Inventory.Memory
	for i := range n.Inventory.GPUs {
		g := &n.Inventory.GPUs[i]
		space = append(space, Card{GPU: g, Class: n.Class(*g), Held: g.Foreign})
	}
	h.Cards = space
	if !slices.IsSortedFunc(h.Cards, byIndex) {
		slices.SortStableFunc(h.Cards, byIndex)
	}
	for _, u := range n.Unmanaged {
		for _, uuid := range u.GPUs {
			if c := h.card(uuid); c != nil {
				c.Held = true
			}
		}
	}
	if len(h.Cards) > 0 {
		h.first.class = h.Cards[0].Class
	}
	for i := range h.Cards {
		if h.Cards[i].Idle() {
			h.count(h.Cards[i].Class, 1)
		}
	}
}

func byIndex(a, b Card) int {
	return cmp.Or(cmp.Compare(a.GPU.Index, b.GPU.Index), cmp.Compare(a.GPU.UUID, b.GPU.UUID))
}

func (h *Host) card(uuid string) *Card {
	for i := range h.Cards {
		if h.Cards[i].GPU.UUID == uuid {
			return &h.Cards[i]
		}
	}
	return nil
}

func (h *Host) count(class string, by int) {
	h.idle += by
	if h.first.class == class {
		h.first.idle += by
		return
	}
	for i := range h.other {
		if h.other[i].class == class {
			h.other[i].idle += by
			return
		}
	}
	h.other = append(h.other, classIdle{class, by})
}
