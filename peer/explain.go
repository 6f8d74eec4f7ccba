package peer

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"berth/fleet"
	"berth/fleet/wire"
	"berth/fsm"
	"berth/peer/board"
	"berth/scheduler"
)

// explainer runs the pure planner without proposing anything: dry runs, and why something is or is not placed.
type explainer struct {
	state func() *fsm.State
	board *board.Board
}

// snapshot is what a plan made now would depend on, as far as this peer knows: who is quiet comes from the leader's word.
func (e *explainer) snapshot() scheduler.Snapshot {
	s := snapshot(e.state(), fleet.TimeOf(time.Now()))
	s.Quiet = make(map[string]scheduler.Quiet)
	for _, v := range e.board.Brief(0).Idle {
		if v.QuietSeconds >= 0 {
			s.Quiet[v.ID] = scheduler.Quiet{For: time.Duration(v.QuietSeconds * float64(time.Second)), Known: true}
		}
	}
	return s
}

// DryRun implements admin.Planner.
func (e *explainer) DryRun(specs []fleet.ModelSpec) (fleet.Plan, error) {
	s := e.snapshot()
	s.Frozen = false
	for _, spec := range specs {
		s.Models = applied(s.Models, spec)
	}
	return scheduler.Plan(s), nil
}

// applied gives the models as they would be after an apply of the spec.
func applied(models []*fleet.Model, spec fleet.ModelSpec) []*fleet.Model {
	out := slices.Clone(models)
	for i, m := range out {
		if m.Name() != spec.Name {
			continue
		}
		next := *m
		next.Spec, next.Deleting = spec, false
		next.Want = max(spec.Replicas.Min, min(m.Want, spec.Replicas.Max))
		if spec.RunHash() != m.Spec.RunHash() {
			next.Generation++
		}
		out[i] = &next
		return out
	}
	youngest := fleet.Index{Epoch: math.MaxUint64} // the planner serves older models first
	out = append(out, &fleet.Model{Spec: spec, Generation: 1, Want: spec.Replicas.Min, Created: youngest})
	slices.SortFunc(out, func(a, b *fleet.Model) int { return strings.Compare(a.Name(), b.Name()) })
	return out
}

// Fits implements admin.Planner. Where there are no nodes yet, nothing can be said, and the model is accepted.
func (e *explainer) Fits(spec fleet.ModelSpec) error {
	if spec.Replicas.Max == 0 {
		return nil
	}
	err := scheduler.Fits(spec, slices.Collect(e.state().Nodes()))
	if f := fleet.AsError(err); err != nil {
		hint := "or accept it as it is with --allow-unplaceable"
		if f.Hint != "" {
			hint = f.Hint + "; " + hint
		}
		return f.WithHint("%s", hint)
	}
	return nil
}

// Rollout implements admin.Planner.
func (e *explainer) Rollout(model string) (wire.RolloutView, bool) {
	v, ok := scheduler.Rollout(e.snapshot(), model)
	return wire.RolloutView(v), ok
}

// ExplainModel implements admin.Planner. The leader's own refusal knows of back-off, so it goes first.
func (e *explainer) ExplainModel(name string) (fleet.Refusal, error) {
	m, ok := e.state().Model(name)
	if !ok {
		return fleet.Refusal{}, fleet.Errorf(fleet.NotFound, "no model %s", name).WithHint("see berthctl models")
	}
	for _, r := range e.board.Brief(-1).Refusals {
		if r.Model == name {
			return r.Refusal, nil
		}
	}
	for _, r := range scheduler.Plan(e.snapshot()).Refusals {
		if r.Model == name {
			return r, nil
		}
	}
	return fleet.Refusal{Model: name, Reason: fmt.Sprintf("nothing is refused: %d wanted", m.Want)}, nil
}

// ExplainNode implements admin.Planner.
func (e *explainer) ExplainNode(name string) (string, error) {
	state := e.state()
	n, ok := state.Node(name)
	if !ok {
		return "", fleet.Errorf(fleet.NotFound, "no node %s is registered", name).WithHint("see berthctl nodes")
	}
	lines := []string{fmt.Sprintf("node %s is %s", name, n.State())}
	if n.AdminReason != "" {
		lines[0] += ": " + n.AdminReason
	}
	if n.Inventory.Note != "" {
		lines = append(lines, n.Inventory.Note)
	}
	for _, g := range n.Inventory.GPUs {
		lines = append(lines, gpuLine(state, n, g))
	}
	for _, u := range n.Unmanaged {
		lines = append(lines, fmt.Sprintf("unmanaged: %s holds %s", u.What, strings.Join(u.GPUs, ", ")))
	}
	return strings.Join(append(lines, e.modelLines(name)...), "\n"), nil
}

// modelLines says of each model whether one more replica, or a shard of one, could go to the node, and why not.
func (e *explainer) modelLines(node string) []string {
	why, _ := scheduler.ExplainNode(e.snapshot(), node)
	lines := make([]string, 0, len(why.Models))
	for _, m := range why.Models {
		if m.Reason == "" {
			lines = append(lines, fmt.Sprintf("model %s: there is room", m.Model))
		} else {
			lines = append(lines, fmt.Sprintf("model %s: no (%s)", m.Model, m.Reason))
		}
	}
	return lines
}

func gpuLine(state *fsm.State, n *fleet.Node, g fleet.GPU) string {
	line := fmt.Sprintf("gpu %d, %s, %s: %s", g.Index, n.Class(g), g.Memory, g.Health)
	if g.Reason != "" {
		line += " (" + g.Reason + ")"
	}
	if g.Foreign {
		line += ", in use by a process that Berth did not start"
	}
	var holders []string
	for replica, share := range state.Claims(n.Name, g.UUID) {
		if share > 0 {
			replica += " (" + share.String() + ")"
		}
		holders = append(holders, replica)
	}
	if len(holders) == 0 {
		return line + ", free"
	}
	return line + ", held by " + strings.Join(holders, ", ")
}
