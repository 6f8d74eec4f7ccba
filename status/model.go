package status

import "berth/fleet"

// States of a model, as lists show them.
const (
	modelSatisfied   = "satisfied"
	modelShort       = "short"
	modelUnplaceable = "unplaceable"
	modelDeleting    = "deleting"
	modelAtZero      = "at zero"
)

// state is the one word for a model. It is satisfied by ready replicas that can be reached, at least as many as min. Unplaceable is one that lacks
// replicas, has nothing starting, and that the planner refuses; one woken from zero too.
func (t *Tally) state(m *fleet.Model, refused *Refused) string {
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
