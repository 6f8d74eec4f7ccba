package scheduler

import (
	"berth/fleet"
	"berth/scheduler/frag"
)

// History counts the shapes that were asked for, so that fragmentation is measured against what comes rather than only against what is there. The zero
// value has seen nothing. It is not safe for concurrent use.
type History struct {
	asked []frag.Asked // in the order in which each was first seen
	at    map[string]int
	seen  map[string]uint64 // by model: what has been counted
	total int

	given      []frag.Asked
	givenTotal int
}

// drift is the part of the demand, in hundredths, that must have changed before Asked gives another answer: each new answer makes a planner measure its
// whole fleet again.
const drift = 10

// Ask counts a spec as asked for so many times.
func (h *History) Ask(spec *fleet.ModelSpec, times int) {
	shape := frag.Shape{Driver: spec.Engine.Driver, Placement: spec.Placement}
	key := shape.Key()
	i, ok := h.at[key]
	if !ok {
		if h.at == nil {
			h.at = map[string]int{}
		}
		i = len(h.asked)
		h.at[key] = i
		h.asked = append(h.asked, frag.Asked{Shape: shape})
	}
	h.asked[i].Times += times
	h.total += times
}

// Observe counts what the models ask for beyond what was counted before: a new model or generation by the replicas it wants, and a wanted number that grew
// by the difference. Models that are gone still count.
func (h *History) Observe(models []*fleet.Model) {
	if h.seen == nil {
		h.seen = map[string]uint64{}
	}
	for _, m := range models {
		if m.Deleting {
			continue
		}
		now := m.Generation<<32 | uint64(max(1, m.Want))
		was := h.seen[m.Name()]
		switch {
		case was>>32 != m.Generation:
			h.Ask(&m.Spec, max(1, m.Want))
		case now > was:
			h.Ask(&m.Spec, int(now-was))
		default:
			continue
		}
		h.seen[m.Name()] = now
	}
}

// Asked returns what was asked for. The answer is the same slice as before until a tenth of the demand is of another kind.
func (h *History) Asked() []frag.Asked {
	if h.given == nil || h.drifted() {
		h.given, h.givenTotal = append([]frag.Asked{}, h.asked...), h.total
	}
	return h.given
}

func (h *History) drifted() bool {
	if h.total == h.givenTotal {
		return false
	}
	if h.givenTotal == 0 {
		return true
	}
	moved := 0.0
	for i, a := range h.asked {
		was := 0.0
		if i < len(h.given) {
			was = float64(h.given[i].Times) / float64(h.givenTotal)
		}
		if d := float64(a.Times)/float64(h.total) - was; d > 0 {
			moved += d
		}
	}
	return moved*100 > drift
}
