package fsm

import (
	"slices"

	"berth/fleet"
)

// txn is one entry being applied: the tables under change, and what came with the entry. Handlers check first and write last, so there is
// nothing to roll back: a txn of a rejected command is simply empty.
type txn struct {
	base *State
	meta Meta
	at   fleet.Index // of this entry
	core core

	servers  editor[fleet.Server]
	models   editor[fleet.Model]
	specs    editor[fleet.ModelSpec]
	nodes    editor[fleet.Node]
	replicas editor[fleet.Replica]
	requests editor[request]
	feeds    editor[fleet.Index]
	strays   editor[stray]

	byModel   editor[fleet.Replica]
	byNode    editor[fleet.Replica]
	names     editor[string]
	nodeIDs   editor[string]
	requestAt editor[string]

	changed Topic
	items   int // number of the plan item being applied, from 1; part of the ids that it makes
}

func (s *State) begin(at fleet.Index, meta Meta) *txn {
	return &txn{
		base: s, meta: meta, at: at, core: s.core,
		servers: s.servers.edit(), models: s.models.editWatched(), specs: s.specs.edit(), nodes: s.nodes.editWatched(),
		replicas: s.replicas.editWatched(), requests: s.requests.edit(), feeds: s.feeds.editWatched(), strays: s.strays.edit(),
		byModel: s.byModel.edit(), byNode: s.byNode.edit(), names: s.names.edit(), nodeIDs: s.nodeIDs.edit(), requestAt: s.requestAt.edit(),
	}
}

// commit returns the new state; notify wakes those who watched what differs, once the new state is in its place.
func (tx *txn) commit() *State {
	return &State{
		tables: tables{
			core:    tx.core,
			servers: tx.servers.table(), models: tx.models.table(), specs: tx.specs.table(), nodes: tx.nodes.table(),
			replicas: tx.replicas.table(), requests: tx.requests.table(), feeds: tx.feeds.table(), strays: tx.strays.table(),
			byModel: tx.byModel.table(), byNode: tx.byNode.table(), names: tx.names.table(),
			nodeIDs: tx.nodeIDs.table(), requestAt: tx.requestAt.table(),
		},
		index:   tx.at,
		signals: tx.base.signals.next(tx.changed),
		hub:     tx.base.hub,
	}
}

func (tx *txn) notify(next *State) {
	next.hub.publish(next, tx)
	tx.base.signals.fire(tx.changed)
}

// touch records that what somebody follows has changed with this entry.
func (tx *txn) touch(feed string) {
	at := tx.at
	tx.feeds.put(feed, &at)
}

// putModel writes a model's row, its names and the spec of its present generation.
func (tx *txn) putModel(m *fleet.Model) {
	old, known := tx.models.get(m.Name())
	if known {
		tx.dropNames(old)
	}
	if !known || old.Deleting != m.Deleting || old.Spec.Hash() != m.Spec.Hash() {
		tx.touch(feedTable)
	}
	tx.indexModel(m)
	tx.specs.put(specKey(m.Name(), m.Generation), &m.Spec)
	tx.changed |= Models
}

// indexModel writes the row and what is derived from it, and tells nobody; a restore does only that.
func (tx *txn) indexModel(m *fleet.Model) {
	name := m.Name()
	tx.models.put(name, m)
	for _, n := range append([]string{name}, m.Spec.Aliases...) {
		tx.names.put(nameKey(n), &name)
	}
}

func (tx *txn) delModel(m *fleet.Model) {
	tx.dropNames(m)
	tx.models.del(m.Name())
	tx.specs.del(specKey(m.Name(), m.Generation))
	tx.changed |= Models
	tx.touch(feedTable)
}

func (tx *txn) dropNames(m *fleet.Model) {
	for _, n := range append([]string{m.Name()}, m.Spec.Aliases...) {
		tx.names.del(nameKey(n))
	}
}

// putNode writes a node's row.
func (tx *txn) putNode(n *fleet.Node) {
	old, known := tx.nodes.get(n.Name)
	if !known {
		old = &fleet.Node{} // a forgotten node that comes back may still have a rank of a replica that is being ended
	}
	tx.indexNode(n)
	tx.changed |= Nodes
	if old.Unreachable != n.Unreachable {
		tx.touch(feedTable)
	}
	if rankHost(old) != rankHost(n) {
		tx.touchRanks(n.Name)
	}
}

// touchRanks tells every agent that shares a replica with the node: orders name the addresses of all ranks.
func (tx *txn) touchRanks(node string) {
	for _, r := range tx.byNode.rows(key(node, "")) {
		tx.touchOrders(r)
	}
}

func (tx *txn) indexNode(n *fleet.Node) {
	name := n.Name
	tx.nodes.put(name, n)
	tx.nodeIDs.put(n.ID, &name)
}

func (tx *txn) delNode(n *fleet.Node) {
	tx.nodes.del(n.Name)
	tx.nodeIDs.del(n.ID)
	tx.feeds.del(ordersFeed(n.Name))
	tx.changed |= Nodes
	tx.touchRanks(n.Name)
	if n.Unreachable {
		tx.touch(feedTable) // what was lost with it is so no more
	}
}

// putReplica writes a replica's row and everything that is derived from it.
func (tx *txn) putReplica(r *fleet.Replica) {
	old, known := tx.replicas.get(r.ID)
	if !known || shownOf(old) != shownOf(r) {
		tx.touch(feedTable)
	}
	if !known || toldOf(old) != toldOf(r) {
		tx.touchOrders(r)
	}
	tx.indexReplica(r)
	tx.changed |= Replicas
}

func (tx *txn) indexReplica(r *fleet.Replica) {
	tx.replicas.put(r.ID, r)
	tx.byModel.put(key(r.Model, r.ID), r)
	for _, shard := range r.Shards {
		tx.byNode.put(key(shard.Node, r.ID), r)
	}
}

func (tx *txn) delReplica(r *fleet.Replica) {
	tx.replicas.del(r.ID)
	tx.byModel.del(key(r.Model, r.ID))
	for _, shard := range r.Shards {
		tx.byNode.del(key(shard.Node, r.ID))
	}
	tx.touchOrders(r)
	tx.touch(feedTable)
	tx.changed |= Replicas
}

// shown is what the routers' table says of a replica, told what its agents' orders say. A change of anything else wakes neither: a fleet of
// routers must not fetch a table because an engine's exit was noted.
type shown struct {
	state fleet.ReplicaState
	door  fleet.Door
	drain *fleet.Drain
	doubt bool
}

func shownOf(r *fleet.Replica) shown {
	s := shown{state: r.State, drain: r.Drain, doubt: unconfirmed(r)}
	if r.Door != nil {
		s.door = *r.Door
	}
	return s
}

type told struct {
	order    fleet.Index
	start    uint64
	live     bool
	master   string
	drain    *fleet.Drain
	released int
}

func toldOf(r *fleet.Replica) told {
	o := told{order: r.Order, start: r.Start, live: r.State.Live(), master: r.Master, drain: r.Drain}
	for _, s := range r.Shards {
		if s.Released {
			o.released++
		}
	}
	return o
}

// touchOrders tells the agents of a replica's nodes that their orders changed. A forgotten node has no feed any more.
func (tx *txn) touchOrders(r *fleet.Replica) {
	for _, shard := range r.Shards {
		if _, ok := tx.nodes.get(shard.Node); ok {
			tx.touch(ordersFeed(shard.Node))
		}
	}
}

// edited returns a copy of a replica that may be written to, stamped with this entry.
func (tx *txn) edited(r *fleet.Replica) *fleet.Replica {
	c := *r
	c.Shards = slices.Clone(r.Shards)
	c.Marks = slices.Clone(r.Marks)
	c.Changed = tx.at
	return &c
}

// enter moves a replica to a state; the time of the change is kept only when it is one.
func (tx *txn) enter(r *fleet.Replica, s fleet.ReplicaState) {
	if r.State != s {
		r.State, r.StateAt = s, tx.meta.At
	}
}
