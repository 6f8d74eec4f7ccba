package status

import (
	"iter"
	"maps"
	"slices"

	"berth/fleet"
	"berth/fleet/wire"
)

// Tables is where a tally looks rows up: the agreed tables at one moment.
type Tables interface {
	Model(name string) (*fleet.Model, bool)
	Node(name string) (*fleet.Node, bool)
	Replica(id string) (*fleet.Replica, bool)
	ReplicasOn(node string) iter.Seq[*fleet.Replica]
}

// Changes names the rows that may differ from what a tally has counted: new ones, changed ones and those that are gone.
type Changes struct{ Models, Nodes, Replicas []string }

// Tally is the sum of what each row counts for. An update takes back what the changed rows counted for and adds what they count for now, so it
// costs what has changed; a recount is an update of a new tally with every row. The part of a row is a pure function of the row and of the few
// rows that it refers to. A tally is for one goroutine at a time.
type Tally struct {
	nodes    map[string]nodePart
	replicas map[string]replicaPart
	models   map[string]modelPart

	byState  map[fleet.NodeState]int
	classes  map[string]wire.ClassCounts
	fabrics  fabrics
	states   map[fleet.ReplicaState]int
	ready    map[string]int // by model: ready and able to serve
	starting map[string]int // by model
	short    int            // models
	issues   issues
}

// NewTally returns the tally of an empty fleet.
func NewTally() *Tally {
	return &Tally{
		nodes: map[string]nodePart{}, replicas: map[string]replicaPart{}, models: map[string]modelPart{},
		byState: map[fleet.NodeState]int{}, classes: map[string]wire.ClassCounts{}, states: map[fleet.ReplicaState]int{},
		ready: map[string]int{}, starting: map[string]int{},
	}
}

// Update counts the changed rows anew, and those that depend on them: a replica holds cards of its nodes, a node that is unreachable loses its
// replicas, and a model is satisfied by what its replicas are.
func (t *Tally) Update(now Tables, changed Changes) {
	nodes, replicas, models := setOf(changed.Nodes), setOf(changed.Replicas), setOf(changed.Models)
	for id := range replicas {
		for _, s := range t.replicas[id].shards {
			nodes[s.Node] = true
		}
		if r, ok := now.Replica(id); ok {
			for _, s := range r.Shards {
				nodes[s.Node] = true
			}
		}
	}
	for name := range nodes {
		if t.countNode(now, name) {
			for r := range now.ReplicasOn(name) {
				replicas[r.ID] = true
			}
		}
	}
	for id := range replicas {
		t.countReplica(now, id, models)
	}
	for name := range models {
		t.countModel(now, name)
	}
}

func setOf(names []string) map[string]bool {
	set := make(map[string]bool, 2*len(names))
	for _, n := range names {
		set[n] = true
	}
	return set
}

// countNode says whether the node can be reached now and could not before, or the other way about.
func (t *Tally) countNode(now Tables, name string) (turned bool) {
	old, was := t.nodes[name]
	var before, after *nodePart
	if was {
		before = &old
		t.addNode(name, old, -1)
		delete(t.nodes, name)
	}
	if n, is := now.Node(name); is {
		part := partOfNode(n, slices.Collect(now.ReplicasOn(name)))
		after = &part
		t.nodes[name] = part
		t.addNode(name, part, 1)
	}
	t.fabrics.replace(before, after)
	return (was && old.state != fleet.NodeUnreachable) != t.reaches(name)
}

func (t *Tally) reaches(node string) bool {
	part, ok := t.nodes[node]
	return ok && part.state != fleet.NodeUnreachable
}

func (t *Tally) addNode(name string, p nodePart, sign int) {
	add(t.byState, p.state, sign)
	for _, c := range p.classes {
		sum := plus(t.classes[c.Class], c, sign)
		if t.classes[c.Class] = sum; sum.Total == 0 {
			delete(t.classes, c.Class)
		}
	}
	t.issues.add(name, p.issues, sign)
}

// Fabrics gives a row a fabric, as the summary shows them. They are not to be changed.
func (t *Tally) Fabrics() []wire.FabricCounts { return t.fabrics.counts() }

// FabricsVersion tells whether the fabrics are what they were: it changes when they do.
func (t *Tally) FabricsVersion() uint64 { return t.fabrics.version }

// plus adds a row to a sum of rows of its class, or takes it away.
func plus(sum, row wire.ClassCounts, sign int) wire.ClassCounts {
	return wire.ClassCounts{
		Class: row.Class, Total: sum.Total + sign*row.Total, Used: sum.Used + sign*row.Used, Free: sum.Free + sign*row.Free,
		Unhealthy: sum.Unhealthy + sign*row.Unhealthy, Withheld: sum.Withheld + sign*row.Withheld,
	}
}

func add[K comparable](counts map[K]int, key K, n int) {
	if counts[key] += n; counts[key] == 0 {
		delete(counts, key)
	}
}

func (t *Tally) countReplica(now Tables, id string, models map[string]bool) {
	if old, ok := t.replicas[id]; ok {
		t.addReplica(id, old, -1)
		delete(t.replicas, id)
		models[old.model] = true
	}
	if r, ok := now.Replica(id); ok {
		part := partOfReplica(r, t.reaches)
		t.replicas[id] = part
		t.addReplica(id, part, 1)
		models[r.Model] = true
	}
}

func (t *Tally) addReplica(id string, p replicaPart, sign int) {
	add(t.states, p.state, sign)
	switch {
	case !p.able:
	case p.state == fleet.Ready:
		add(t.ready, p.model, sign)
	case p.state == fleet.Starting:
		add(t.starting, p.model, sign)
	}
	t.issues.add(id, p.issues, sign)
}

// countModel counts a model as satisfied or short; one that is being deleted lacks nothing.
func (t *Tally) countModel(now Tables, name string) {
	if old, ok := t.models[name]; ok {
		t.addModel(old, -1)
		delete(t.models, name)
	}
	if m, ok := now.Model(name); ok {
		part := modelPart{row: m, satisfied: m.Deleting || t.ready[name] >= m.Spec.Replicas.Min}
		t.models[name] = part
		t.addModel(part, 1)
	}
}

func (t *Tally) addModel(p modelPart, sign int) {
	if !p.satisfied {
		t.short += sign
	}
}

// lost says whether a card that the replica still holds is on a node that cannot be reached.
func (t *Tally) lost(id string) bool { return t.replicas[id].lost }

func (t *Tally) classRows() []wire.ClassCounts {
	out := make([]wire.ClassCounts, 0, len(t.classes))
	for _, class := range slices.Sorted(maps.Keys(t.classes)) {
		out = append(out, t.classes[class])
	}
	return out
}
