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
	GPU    fleet.GPU
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

// Host is one node with its cards in the order of their index.
type Host struct {
	Node   *fleet.Node
	Fabric string // "" is unknown
	Ready  bool   // neither cordoned nor draining nor unreachable
	Cards  []Card
	CPUs   int         // not claimed; negative when overcommitted
	Memory fleet.Bytes // of the host, not claimed
	idle   []classIdle
}

type classIdle struct {
	class string
	idle  int
}

// Idle returns how many cards of a class are in good order with nothing claimed, whatever the state of the node.
func (h *Host) Idle(class string) int {
	for i := range h.idle {
		if h.idle[i].class == class {
			return h.idle[i].idle
		}
	}
	return 0
}

// Whole says whether the node is ready and has cards, all of them healthy and free.
func (h *Host) Whole() bool {
	if !h.Ready || len(h.Cards) == 0 {
		return false
	}
	idle := 0
	for _, c := range h.idle {
		idle += c.idle
	}
	return idle == len(h.Cards)
}

func newHost(n *fleet.Node) *Host {
	h := &Host{
		Node: n, Fabric: n.Fabric(), Ready: n.State() == fleet.NodeReady,
		Cards: make([]Card, 0, len(n.Inventory.GPUs)), CPUs: n.Inventory.CPUs, Memory: n.Inventory.Memory,
	}
	for _, g := range n.Inventory.GPUs {
		h.Cards = append(h.Cards, Card{GPU: g, Class: n.Class(g), Held: g.Foreign})
	}
	slices.SortStableFunc(h.Cards, func(a, b Card) int {
		return cmp.Or(cmp.Compare(a.GPU.Index, b.GPU.Index), cmp.Compare(a.GPU.UUID, b.GPU.UUID))
	})
	for _, u := range n.Unmanaged {
		for _, uuid := range u.GPUs {
			if c := h.card(uuid); c != nil {
				c.Held = true
			}
		}
	}
	for i := range h.Cards {
		h.count(h.Cards[i].Class, 0)
		if h.Cards[i].Idle() {
			h.count(h.Cards[i].Class, 1)
		}
	}
	return h
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
	for i := range h.idle {
		if h.idle[i].class == class {
			h.idle[i].idle += by
			return
		}
	}
	h.idle = append(h.idle, classIdle{class, by})
}
