package capacity

import "berth/fleet"

// Map is a fleet's cards and what is claimed of them. It is changed by Claim and Release, which undo each other; nothing else changes it.
type Map struct {
	Hosts  []*Host // in the order of the nodes given
	byName map[string]*Host
}

// New lays the replicas' claims over the nodes. A claim holds until its shard's agent has proved the card empty (Shard.Released), whatever state its
// replica is in. A claim of a card that its node no longer reports is a claim of nothing: totals are what the nodes report. What a replica takes of
// a host's CPUs and memory is in its model's placement.
func New(nodes []*fleet.Node, replicas []*fleet.Replica, placement func(model string) fleet.PlacementSpec) *Map {
	m := &Map{Hosts: make([]*Host, len(nodes)), byName: make(map[string]*Host, len(nodes))}
	total := 0
	for _, n := range nodes {
		total += len(n.Inventory.GPUs)
	}
	hosts, cards := make([]Host, len(nodes)), make([]Card, total)
	whole := map[string]*int{}
	for i, n := range nodes {
		h, gpus := &hosts[i], len(n.Inventory.GPUs)
		h.Node = n
		h.fill(cards[:0:gpus])
		cards = cards[gpus:]
		if h.whole = whole[h.Fabric]; h.whole == nil {
			h.whole = new(int)
			whole[h.Fabric] = h.whole
		}
		if h.Whole() {
			*h.whole++
		}
		m.Hosts[i], m.byName[n.Name] = h, h
	}
	for _, r := range replicas {
		m.Claim(r.Shards, placement(r.Model))
	}
	return m
}

// Host returns the host of that name, or nil.
func (m *Map) Host(name string) *Host { return m.byName[name] }

// Claim takes what the shards claim; released shards claim nothing.
func (m *Map) Claim(shards []fleet.Shard, p fleet.PlacementSpec) { m.apply(shards, p, 1) }

// Release gives back what Claim took for the same shards.
func (m *Map) Release(shards []fleet.Shard, p fleet.PlacementSpec) { m.apply(shards, p, -1) }

func (m *Map) apply(shards []fleet.Shard, p fleet.PlacementSpec, by int) {
	for i := range shards {
		h := m.byName[shards[i].Node]
		if h == nil || shards[i].Released {
			continue
		}
		before := h.Whole()
		h.CPUs -= by * p.CPUs
		h.Memory -= fleet.Bytes(by) * p.Memory
		for _, claim := range shards[i].Claims {
			h.apply(claim, by)
		}
		h.recount(before)
	}
}

func (h *Host) apply(claim fleet.Claim, by int) {
	c := h.card(claim.GPU)
	if c == nil {
		return
	}
	before := c.Idle()
	if claim.Share > 0 {
		c.Shares += by
		c.Shared += fleet.Bytes(by) * claim.Share
	} else {
		c.Whole += by
	}
	if after := c.Idle(); after != before {
		if after {
			h.count(c.Class, 1)
		} else {
			h.count(c.Class, -1)
		}
	}
}

// recount keeps the number of whole hosts of the fabric true after a change of this one.
func (h *Host) recount(before bool) {
	after := h.Whole()
	switch {
	case after && !before:
		*h.whole++
	case before && !after:
		*h.whole--
	}
}

// SetReady pretends that a host is ready, or not: for "would it fit if …".
func (h *Host) SetReady(ready bool) {
	before := h.Whole()
	h.Ready = ready
	h.recount(before)
}
