package capacity

import "berth/fleet"

// Map is a fleet's cards and what is claimed of them. It is changed by Claim and Release, which undo each other; nothing else changes it.
type Map struct {
	Hosts  []*Host // in the order of the nodes given
	byName map[string]*Host

	log  []int32 // hosts changed, in order; who keeps something about hosts reads what is new to it
	base int     // entries of the log that have been dropped
}

// New lays the replicas' claims over the nodes. A claim holds until its shard's agent has proved the card empty (Shard.Released), whatever state its
// replica is in. A claim of a card that its node no longer reports is a claim of nothing: totals are what the nodes report. What a replica takes of
// a host's CPUs and memory is in the placement that placed it.
func New(nodes []*fleet.Node, replicas []*fleet.Replica, placement func(*fleet.Replica) *fleet.PlacementSpec) *Map {
	m := &Map{Hosts: make([]*Host, len(nodes)), byName: make(map[string]*Host, len(nodes))}
	total := 0
	for _, n := range nodes {
		total += len(n.Inventory.GPUs)
	}
	hosts, cards := make([]Host, len(nodes)), make([]Card, total)
	fabrics := map[string]*fabric{}
	for i, n := range nodes {
		h, gpus := &hosts[i], len(n.Inventory.GPUs)
		h.Node, h.Index = n, i
		h.fill(cards[:0:gpus])
		cards = cards[gpus:]
		if h.fabric = fabrics[h.Fabric]; h.fabric == nil {
			h.fabric = new(fabric)
			fabrics[h.Fabric] = h.fabric
		}
		h.fabric.hosts = append(h.fabric.hosts, h)
		if h.Whole() {
			h.fabric.whole++
		}
		m.Hosts[i], m.byName[n.Name] = h, h
	}
	for _, r := range replicas {
		m.Claim(r.Shards, placement(r))
	}
	return m
}

// Claimed is what one replica takes.
type Claimed struct {
	Shards    []fleet.Shard
	Placement *fleet.PlacementSpec
}

// Renew lays out a node's newer row in the place of its older one, with the claims that are on it: the map does not remember whose they are. The row must
// be of the same fabric and have the same cards in the same order; their health, and what holds them, may be others.
func (m *Map) Renew(n *fleet.Node, claims []Claimed) {
	h := m.byName[n.Name]
	before := h.Whole()
	h.Node, h.idle, h.first, h.other = n, 0, classIdle{}, nil
	h.fill(h.Cards[:0])
	for _, c := range claims {
		for i := range c.Shards {
			if c.Shards[i].Node == n.Name && !c.Shards[i].Released {
				h.take(&c.Shards[i], c.Placement, 1)
			}
		}
	}
	m.changed(h, before)
}

// Host returns the host of that name, or nil.
func (m *Map) Host(name string) *Host { return m.byName[name] }

// Claim takes what the shards claim; released shards claim nothing.
func (m *Map) Claim(shards []fleet.Shard, p *fleet.PlacementSpec) { m.apply(shards, p, 1) }

// Release gives back what Claim took for the same shards.
func (m *Map) Release(shards []fleet.Shard, p *fleet.PlacementSpec) { m.apply(shards, p, -1) }

func (m *Map) apply(shards []fleet.Shard, p *fleet.PlacementSpec, by int) {
	for i := range shards {
		h := m.byName[shards[i].Node]
		if h == nil || shards[i].Released {
			continue
		}
		before := h.Whole()
		h.take(&shards[i], p, by)
		m.changed(h, before)
	}
}

func (h *Host) take(s *fleet.Shard, p *fleet.PlacementSpec, by int) {
	h.CPUs -= by * p.CPUs
	h.Memory -= fleet.Bytes(by) * p.Memory
	for _, claim := range s.Claims {
		h.apply(claim, by)
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

// changed keeps the number of whole hosts of the fabric true after a change of a host, and notes the change. While a fabric has few whole hosts, one
// less or more matters to the whole ones among its hosts too.
func (m *Map) changed(h *Host, before bool) {
	m.note(h)
	after := h.Whole()
	if after == before {
		return
	}
	if after {
		h.fabric.whole++
	} else {
		h.fabric.whole--
	}
	if h.Fabric == "" || h.fabric.whole > ManyWhole+1 {
		return
	}
	for _, o := range h.fabric.hosts {
		if o != h && o.Whole() {
			m.note(o)
		}
	}
}

// ManyWhole is the number of whole hosts from which on a fabric counts as one that has many: how many more is not told apart.
const ManyWhole = 64

func (m *Map) note(h *Host) {
	h.Version++
	if len(m.log) >= 4*len(m.Hosts)+64 {
		m.base += len(m.log)
		m.log = m.log[:0]
	}
	m.log = append(m.log, int32(h.Index))
}

// Now returns the place in the log of changes that is reached.
func (m *Map) Now() int { return m.base + len(m.log) }

// Since returns the hosts, by index and perhaps several times, that have changed since Now was that; false when that is too long ago to know.
func (m *Map) Since(then int) ([]int32, bool) {
	if then < m.base {
		return nil, false
	}
	return m.log[then-m.base:], true
}

// Touch notes a change of a host that is not in the host itself.
func (m *Map) Touch(h *Host) { m.note(h) }

// SetReady pretends that a host is ready, or not: for "would it fit if …".
func (m *Map) SetReady(h *Host, ready bool) {
	before := h.Whole()
	h.Ready = ready
	m.changed(h, before)
}
