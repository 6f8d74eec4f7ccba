package status

import (
	"slices"

	"berth/fleet"
)

// States of a model, as lists show them.
const (
	modelSatisfied   = "satisfied"
	modelShort       = "short"
	modelUnplaceable = "unplaceable"
	modelDeleting    = "deleting"
	modelAtZero      = "at zero"
)

// deviceGone is the mark of a replica whose card its node no longer reports.
const deviceGone = "device gone"

// tally is what one pass over the replicas tells, by model and by node.
type tally struct {
	ready    map[string]int // by model: ready and able to serve
	starting map[string]int // by model
	onNode   map[string]int // replicas with a shard there
	lost     map[string]bool
}

func newTally(in *Input) tally {
	t := tally{ready: map[string]int{}, starting: map[string]int{}, onNode: map[string]int{}, lost: map[string]bool{}}
	reachable := make(map[string]bool, len(in.Nodes))
	for _, n := range in.Nodes {
		reachable[n.Name] = !n.Unreachable
	}
	for _, r := range in.Replicas {
		for _, s := range r.Shards {
			t.onNode[s.Node]++
			if !s.Released && !reachable[s.Node] {
				t.lost[r.ID] = true
			}
		}
		switch {
		case t.lost[r.ID] || slices.Contains(r.Marks, deviceGone):
		case r.State == fleet.Ready:
			t.ready[r.Model]++
		case r.State == fleet.Starting:
			t.starting[r.Model]++
		}
	}
	return t
}

// state is the one word for a model. It is satisfied by ready replicas that can be reached, at least as many as min. Unplaceable is one that lacks
// replicas, has nothing starting, and that the planner refuses; one woken from zero too.
func (t tally) state(m *fleet.Model, refused *Refused) string {
	ready := t.ready[m.Name()]
	switch {
	case m.Deleting:
		return modelDeleting
	case refused != nil && refused.Short > 0 && ready < m.Want && t.starting[m.Name()] == 0:
		return modelUnplaceable
	case ready < m.Spec.Replicas.Min:
		return modelShort
	case ready == 0 && m.Want == 0:
		return modelAtZero
	default:
		return modelSatisfied
	}
}

func (in *Input) refusals() map[string]*Refused {
	out := make(map[string]*Refused, len(in.Refusals))
	for i := range in.Refusals {
		out[in.Refusals[i].Model] = &in.Refusals[i]
	}
	return out
}
