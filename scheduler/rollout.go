package scheduler

import (
	"fmt"

	"berth/fleet"
)

// RolloutView is where the replacement of a model's replicas by those of its present generation stands.
type RolloutView struct {
	Model      string `json:"model"`
	Generation uint64 `json:"generation"`
	State      string `json:"state"` // complete, going, waiting, paused, stopped
	Reason     string `json:"reason,omitempty"`
	Want       int    `json:"want"`
	New        int    `json:"new"`       // of the present generation, starting or ready
	NewReady   int    `json:"new_ready"` // of those
	Failed     int    `json:"failed"`    // of the present generation
	Old        int    `json:"old"`       // still to be replaced
	OldReady   int    `json:"old_ready"` // of those
	Ending     int    `json:"ending"`    // draining
}

// Rollout answers for one model of the snapshot; false when there is none of that name.
func Rollout(s Snapshot, model string) (RolloutView, bool) {
	p := newPlanner(s)
	m := p.models[model]
	if m == nil {
		return RolloutView{}, false
	}
	c := p.cast(m)
	v := RolloutView{
		Model: model, Generation: m.Generation, State: "going", Want: c.want, New: len(c.staying), NewReady: ready(c.staying),
		Failed: len(c.failed), Old: len(c.leaving), OldReady: ready(c.leaving), Ending: len(c.ending),
	}
	switch {
	case m.Paused:
		v.State, v.Reason = "paused", fmt.Sprintf("go on with berthctl rollout resume %s", model)
	case c.stalled():
		v.State, v.Reason = "stopped", c.held(Hold{})
	case len(c.leaving) == 0 && v.NewReady >= c.want:
		v.State = "complete"
	default:
		if r := p.refused(model); r.Reason != "" {
			v.State, v.Reason = "waiting", r.Reason
		}
	}
	return v, true
}

// refused plans and returns the model's refusal.
func (p *planner) refused(model string) fleet.Refusal {
	p.run()
	for _, r := range p.plan.Refusals {
		if r.Model == model {
			return r
		}
	}
	return fleet.Refusal{}
}
