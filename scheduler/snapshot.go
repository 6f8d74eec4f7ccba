package scheduler

import (
	"time"

	"berth/fleet"
	"berth/scheduler/frag"
)

// Snapshot is everything that a plan depends on: the agreed state in key order, what the leader observes, and its clock.
type Snapshot struct {
	Now      fleet.Time
	Settings fleet.Settings
	Models   []*fleet.Model   // by name
	Nodes    []*fleet.Node    // by name
	Replicas []*fleet.Replica // by id
	// Since is which of these rows are others than in the snapshot that the same reader was given before; nil: it looks for itself.
	Since *Changes

	// Frozen: nothing is placed, stopped or restarted; refusals are still explained.
	Frozen bool
	// Braked: the leader suspects itself rather than the nodes, so replicas on unreachable nodes are not replaced.
	Braked bool

	// Asked is what the cluster was asked for, as a History counts it; nil: what Models ask for. Fragmentation is measured against it.
	Asked []frag.Asked
	// Specs returns the spec of a model's generation while replicas of it live; nil: the present spec speaks for all.
	Specs func(model string, generation uint64) *fleet.ModelSpec
	// Faults are the cards, by UUID, that are healthy again after a recent fault.
	Faults map[string]bool
	// Weights are the nodes, by model, that are known to have the model's weights on their disk.
	Weights map[string]map[string]bool

	// Waited is for how long each model has had fewer replicas than it wants because there was no room.
	Waited map[string]time.Duration

	Demand map[string]Waiting // by model
	Quiet  map[string]Quiet   // by replica; no entry: unknown
	// QuietOf answers instead of Quiet where it is set, for the few replicas that a plan asks about; it must give the same answer each time.
	QuietOf func(replica string) Quiet
	Backoff Backoff
}

// quiet is what is known of how long nobody used a replica.
func (s *Snapshot) quiet(replica string) Quiet {
	if s.QuietOf != nil {
		return s.QuietOf(replica)
	}
	return s.Quiet[replica]
}

// Waiting is what waits at the routers for a model that has no ready replica.
type Waiting struct {
	Requests int
	Oldest   time.Duration
}

// Quiet is how long it is certain that nobody used a replica, and the door's mark at that reading.
type Quiet struct {
	For   time.Duration
	Known bool
	Mark  fleet.Mark
}

// Backoff holds what failed lately away from where it failed, each for a while counted from the snapshot's Now. An entry of zero or less is over.
type Backoff struct {
	Models   map[string]Hold // nothing of this model is placed anywhere
	Nodes    map[string]Hold // nothing is placed on this node
	Pairs    map[Pair]Hold   // this model is not placed on this node
	Restarts map[string]Hold // this replica's ranks are not started again yet
	Turns    map[string]Hold // this model makes no others go yet, when it is woken
}

// Pair is one model on one node.
type Pair struct{ Model, Node string }

// Hold is how long something is still held back, and the failure that caused it.
type Hold struct {
	For   time.Duration
	Cause string
}

// Next returns the time after which the first hold ends, so that a plan made then may differ; false when nothing is held.
func (b Backoff) Next() (time.Duration, bool) {
	var next time.Duration
	take := func(h Hold) {
		if h.For > 0 && (next == 0 || h.For < next) {
			next = h.For
		}
	}
	for _, holds := range []map[string]Hold{b.Models, b.Nodes, b.Restarts, b.Turns} {
		for _, h := range holds {
			take(h)
		}
	}
	for _, h := range b.Pairs {
		take(h)
	}
	return next, next > 0
}
