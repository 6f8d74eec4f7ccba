package capacity

import "berth/fleet"

// Map is a fleet's cards and what is claimed of them. It is changed by Claim and Release, which undo each other; nothing else changes it.
type Map struct {
	Hosts  []*Host // in the order of the nodes given
	byName map[string]*Host
	whole  map[string]int // fabric → hosts that are whole
}

// New lays the replicas' claims over the nodes. A claim holds until its shard's agent has proved the card empty (Shard.Released), whatever state its
// replica is in. A claim of a card that its node no longer reports is a claim of nothing: totals are what the nodes report. What a replica takes of
// a host's CPUs and memory is in its model's placement.
func New(nodes []*fleet.Node, replicas []*fleet.Replica, placement func(model string) fleet.PlacementSpec) *Map {
	m := &Map{Hosts: make([]*Host, 0, len(nodes)), byName: make(map[string]*Host, len(nodes)), whole: map[string]int{}}
	for _, n := range nodes {
		h := newHost(n)
		m.Hosts = append(m.Hosts, h)
		m.byName[n.Name] = h
		if h.Whole() {
			m.whole[h.Fabric]++
		}
	}
	for _, r := range replicas {
		m.Claim(r.Shards, placement(r.Model))
	}
	return m
}

// Host returns the host of that name, or nil.
func (m *Map) Host(name string) *Host { return m.byName[name] }

// WholeHosts returns how many whole hosts a fabric has.
func (m *Map) WholeHosts(fabric string) int { return m.whole[fabric] }

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
		m.recount(h, before)
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

func (m *Map) recount(h *Host, before bool) {
	after := h.Whole()
	switch {
	case after && !before:
		m.whole[h.Fabric]++
	case before && !after:
		m.whole[h.Fabric]--
	}
}

// SetReady pretends that a host is ready, or not: for "would it fit if …".
func (m *Map) SetReady(h *Host, ready bool) {
	before := h.Whole()
	h.Ready = ready
	m.recount(h, before)
}
