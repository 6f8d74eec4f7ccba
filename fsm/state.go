package fsm

import (
	"iter"
	"slices"
	"sync"

	"berth/fleet"
)

// State is the replicated state at one index. It is immutable: whoever holds one reads a moment in history without a lock, for as long as it
// likes. Rows are shared between states and must not be written to.
type State struct {
	tables
	index   fleet.Index
	signals signals // of whole tables
	hub     *hub    // of single rows

	fingerprint sync.Once
	hash        string
}

// tables is everything that a state holds: what a snapshot stores first, then what is derived from it.
type tables struct {
	core core

	servers  table[fleet.Server]
	models   table[fleet.Model]
	specs    table[fleet.ModelSpec] // by model and generation, while the model or a replica of the generation lives
	nodes    table[fleet.Node]
	replicas table[fleet.Replica]
	requests table[request]
	feeds    table[fleet.Index] // index of the last change of what somebody follows: an agent's orders, the routers' table
	strays   table[stray]       // ranks of gangs found running after a restore, by replica and rank, until the gang is complete

	byModel   table[fleet.Replica] // model, replica
	byNode    table[fleet.Replica] // node, replica; the row itself, so that a change of a replica wakes who watches its nodes
	names     table[string]        // folded name, exact name → model
	nodeIDs   table[string]        // node id → node name
	requestAt table[string]        // index → request id, the order of eviction
}

// core is what there is one of.
type core struct {
	Cluster  fleet.Cluster  `json:"cluster"`
	Settings fleet.Settings `json:"settings"`
	Freeze   *fleet.Freeze  `json:"freeze,omitempty"`
	Floor    fleet.Index    `json:"floor"` // index of the newest request that was evicted from memory
}

// claim is one unreleased claim on a card.
type claim struct {
	Replica string
	Share   fleet.Bytes // 0: the whole card
}

func newState() *State {
	s := &State{tables: tables{core: core{Settings: fleet.DefaultSettings()}}, signals: newSignals()}
	s.hub = newHub(s)
	return s
}

// Index returns the index of the last entry that this state has applied.
func (s *State) Index() fleet.Index { return s.index }

// Cluster returns the identity of the cluster; its ID is empty until it was created.
func (s *State) Cluster() fleet.Cluster { return s.core.Cluster }

// Settings returns the cluster-wide settings.
func (s *State) Settings() fleet.Settings { return s.core.Settings }

// Freeze returns the freeze in force, or nil.
func (s *State) Freeze() *fleet.Freeze { return s.core.Freeze }

// Model returns a model by its name.
func (s *State) Model(name string) (*fleet.Model, bool) { return s.models.get(name) }

// ModelByAlias returns a model by its name or one of its aliases, exactly as written.
func (s *State) ModelByAlias(nameOrAlias string) (*fleet.Model, bool) {
	name, ok := s.names.get(nameKey(nameOrAlias))
	if !ok {
		return nil, false
	}
	return s.models.get(*name)
}

// Models returns every model in order of name.
func (s *State) Models() iter.Seq[*fleet.Model] { return rowsOf(s.models.all()) }

// Spec returns the spec of a generation of a model. It is kept as long as the generation is the model's present one or a replica of it lives.
func (s *State) Spec(model string, generation uint64) (*fleet.ModelSpec, bool) {
	return s.specs.get(specKey(model, generation))
}

// Node returns a node by its name.
func (s *State) Node(name string) (*fleet.Node, bool) { return s.nodes.get(name) }

// NodeByID returns a node by the id on its disk.
func (s *State) NodeByID(id string) (*fleet.Node, bool) {
	name, ok := s.nodeIDs.get(id)
	if !ok {
		return nil, false
	}
	return s.nodes.get(*name)
}

// Nodes returns every node in order of name.
func (s *State) Nodes() iter.Seq[*fleet.Node] { return rowsOf(s.nodes.all()) }

// NodeCount returns how many nodes there are, without going through them.
func (s *State) NodeCount() int { return s.nodes.size() }

// Replica returns a replica by its id.
func (s *State) Replica(id string) (*fleet.Replica, bool) { return s.replicas.get(id) }

// Replicas returns every replica in order of id.
func (s *State) Replicas() iter.Seq[*fleet.Replica] { return rowsOf(s.replicas.all()) }

// ReplicaCount returns how many replicas there are, without going through them.
func (s *State) ReplicaCount() int { return s.replicas.size() }

// ReplicasOf returns the replicas of a model in order of id.
func (s *State) ReplicasOf(model string) iter.Seq[*fleet.Replica] {
	return rowsOf(s.byModel.prefix(key(model, "")))
}

// ReplicasOn returns the replicas that have a shard on a node, in order of id, also when that shard's claims are released already.
func (s *State) ReplicasOn(node string) iter.Seq[*fleet.Replica] {
	return rowsOf(s.byNode.prefix(key(node, "")))
}

// Claims returns what the unreleased claims take of one GPU: replica → amount of memory, 0 for the whole card; in order of replica.
func (s *State) Claims(node, gpu string) iter.Seq2[string, fleet.Bytes] {
	return func(yield func(string, fleet.Bytes) bool) {
		for c := range claimsOf(s.byNode.prefix(key(node, "")), node, gpu) {
			if !yield(c.Replica, c.Share) {
				return
			}
		}
	}
}

// claimsOf finds the claims on one card among the replicas of its node. A node has a handful of them: an index by card would be one more row a
// card to write, to keep in memory and to build at each restore.
func claimsOf(replicas iter.Seq2[string, *fleet.Replica], node, gpu string) iter.Seq[claim] {
	return func(yield func(claim) bool) {
		for _, r := range replicas {
			shard := r.Shards[r.Rank(node)]
			if shard.Released {
				continue
			}
			i := slices.IndexFunc(shard.Claims, func(c fleet.Claim) bool { return c.GPU == gpu })
			if i >= 0 && !yield(claim{Replica: r.ID, Share: shard.Claims[i].Share}) {
				return
			}
		}
	}
}

// Server returns a peer by its id.
func (s *State) Server(id string) (*fleet.Server, bool) { return s.servers.get(id) }

// Servers returns every known peer in order of id.
func (s *State) Servers() iter.Seq[*fleet.Server] { return rowsOf(s.servers.all()) }

// Lost says whether a node of the replica is unreachable. It is a view beside the state: the replica may well run on.
func (s *State) Lost(r *fleet.Replica) bool {
	for _, shard := range r.Shards {
		if n, ok := s.nodes.get(shard.Node); ok && n.Unreachable {
			return true
		}
	}
	return false
}

func rowsOf[T any](rows iter.Seq2[string, *T]) iter.Seq[*T] {
	return func(yield func(*T) bool) {
		for _, row := range rows {
			if !yield(row) {
				return
			}
		}
	}
}
