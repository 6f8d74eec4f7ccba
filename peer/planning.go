package peer

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"berth/fleet"
	"berth/fsm"
	"berth/internal/durable"
	"berth/peer/board"
	"berth/scheduler"
)

const (
	planPace  = 200 * time.Millisecond // at most five plans a second: what changes meanwhile goes into the next
	planTick  = 5 * time.Second        // quiet grows and demand fades without any change of state
	planRetry = time.Second            // after a plan that was not committed
	planItems = 256                    // of one log entry
)

// planning is the duty that turns what is wanted into replicas: look, plan, propose, look again.
type planning struct {
	log    *slog.Logger
	writer writer
	term   *board.Term
	clock  func() time.Duration
}

func (p *planning) run(ctx context.Context) error {
	k := &knowledge{failures: newFailures(), turns: scheduler.NewTurns(), sightings: scheduler.NewSightings()}
	pace := time.NewTimer(0)
	defer pace.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-pace.C:
		}
		state := p.writer.State()
		next := p.once(ctx, state, k)
		p.wait(ctx, state, next)
		pace.Reset(planPace)
	}
}

// knowledge is what planning learns in one term; a new leader begins with none of it.
type knowledge struct {
	failures  *failures
	turns     *scheduler.Turns
	sightings *scheduler.Sightings
	planner   scheduler.Planner
}

// wait returns when a plan may come out differently: the state is another, requests wait, a hold has ended, or a slow tick has passed.
func (p *planning) wait(ctx context.Context, planned *fsm.State, next time.Duration) {
	t := time.NewTimer(next)
	defer t.Stop()
	select {
	case <-ctx.Done():
	case <-planned.Watch():
	case <-p.term.Demanded():
	case <-t.C:
	}
}

// once plans and proposes, and gives the time until the next plan if nothing happens before.
func (p *planning) once(ctx context.Context, state *fsm.State, k *knowledge) time.Duration {
	now := p.clock()
	wall := fleet.TimeOf(time.Now())
	k.failures.observe(now, wall, state.Replicas())
	s := snapshot(state, wall)
	s.Backoff = k.failures.backoff(now)
	s.Backoff.Turns = k.turns.Holds(now)
	s.Demand = demand(p.term, now)
	s.Quiet = quiet(p.term, now, s.Replicas)
	k.sightings.Observe(now, &s)
	plan := k.planner.Plan(s)
	p.term.SetRefusals(now, plan.Refusals)
	p.term.SetAttention("planning", k.failures.setAside(now)...)
	k.turns.Note(now, s, plan.Items)
	k.sightings.Note(now, plan)
	for _, items := range chunks(plan.Items) {
		if err := p.propose(ctx, items); err != nil {
			if ctx.Err() == nil {
				p.log.Warn("a plan was not committed", "error", err)
			}
			return planRetry
		}
	}
	if held, ok := s.Backoff.Next(); ok {
		return min(held, planTick)
	}
	return planTick
}

// propose commits a piece of a plan. Its request id makes it safe to send again while nobody knows what became of it; to plan anew instead could
// place everything twice.
func (p *planning) propose(ctx context.Context, items []fleet.PlanItem) error {
	meta := stamp()
	meta.Request = fsm.RequestID(p.writer.State().Index(), durable.NewID("plan-"))
	cmd := fsm.PlanApply{Plan: fleet.Plan{Items: items}, Term: p.term.Number()}
	out, err := p.writer.Propose(ctx, meta, cmd)
	for errors.Is(err, fleet.OutcomeUnknown) && ctx.Err() == nil {
		pause(ctx, planPace)
		out, err = p.writer.Propose(ctx, meta, cmd)
	}
	if err != nil {
		return err
	}
	if out.Err != nil {
		return out.Err
	}
	for i, refused := range out.Items {
		if refused != nil { // the state had moved on; the next plan sees it as it is
			p.log.Info("an item of a plan was refused", "item", i, "reason", refused)
		}
	}
	return nil
}

// chunks cuts a plan into pieces that fit into a log entry; a wake stays with the placement that it allows.
func chunks(items []fleet.PlanItem) [][]fleet.PlanItem {
	var out [][]fleet.PlanItem
	for len(items) > 0 {
		n := min(planItems, len(items))
		for n < len(items) && items[n-1].Wake != nil {
			n++
		}
		out = append(out, items[:n])
		items = items[n:]
	}
	return out
}

// snapshot is the agreed part of what a plan depends on.
func snapshot(state *fsm.State, wall fleet.Time) scheduler.Snapshot {
	s := scheduler.Snapshot{Now: wall, Settings: state.Settings(), Frozen: state.Freeze() != nil}
	for m := range state.Models() {
		s.Models = append(s.Models, m)
	}
	for n := range state.Nodes() {
		s.Nodes = append(s.Nodes, n)
	}
	for r := range state.Replicas() {
		s.Replicas = append(s.Replicas, r)
	}
	s.Specs = func(model string, generation uint64) *fleet.ModelSpec {
		spec, _ := state.Spec(model, generation)
		return spec
	}
	return s
}

func demand(t *board.Term, now time.Duration) map[string]scheduler.Waiting {
	out := make(map[string]scheduler.Waiting)
	for model, d := range t.Ledger.Demand(now) {
		out[model] = scheduler.Waiting{Requests: d.Waiting, Oldest: time.Duration(d.Oldest * float64(time.Second))}
	}
	return out
}

func quiet(t *board.Term, now time.Duration, replicas []*fleet.Replica) map[string]scheduler.Quiet {
	out := make(map[string]scheduler.Quiet)
	for _, r := range replicas {
		if v := t.Ledger.View(now, r.ID); v.QuietKnown && v.Markable {
			out[r.ID] = scheduler.Quiet{For: v.Quiet, Known: true, Mark: v.Mark}
		}
	}
	return out
}
