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
	planPace  = 20 * time.Millisecond  // what changes meanwhile goes into one plan
	planShare = 10                     // one part in so many of the time is spent on planning at most
	planLull  = 2 * time.Second        // the longest pause that this makes
	planTick  = 5 * time.Second        // quiet grows and demand fades without any change of state
	planAgain = 200 * time.Millisecond // before a piece of unknown outcome is sent again
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
	k := newKnowledge()
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
		pace.Reset(k.pace())
	}
}

// knowledge is what planning learns in one term; a new leader begins with none of it.
type knowledge struct {
	failures  *failures
	turns     *scheduler.Turns
	sightings *scheduler.Sightings
	planner   scheduler.Planner
	rows      scheduler.Rows // of the state that was planned for last
	at        *fsm.State
	took      time.Duration // to look and to plan, the last time
}

func newKnowledge() *knowledge {
	return &knowledge{failures: newFailures(), turns: scheduler.NewTurns(), sightings: scheduler.NewSightings(), at: fsm.New().State()}
}

// follow brings the rows up to a state, and gives what has changed since the last.
func (k *knowledge) follow(state *fsm.State) *scheduler.Changes {
	c := new(scheduler.Changes)
	fsm.Diff(k.at, state, fsm.Changes{
		Model: func(old, m *fleet.Model) { c.Models = append(c.Models, scheduler.Row[fleet.Model]{Old: old, New: m}) },
		Node:  func(old, n *fleet.Node) { c.Nodes = append(c.Nodes, scheduler.Row[fleet.Node]{Old: old, New: n}) },
		Replica: func(old, r *fleet.Replica) {
			c.Replicas = append(c.Replicas, scheduler.Row[fleet.Replica]{Old: old, New: r})
		},
	})
	k.rows.Apply(c)
	k.at = state
	return c
}

// pace is how long changes are collected before the next plan: so long that planning, which a large fleet makes dear, leaves the processor to the writes
// that it is for.
func (k *knowledge) pace() time.Duration {
	return max(planPace, min(planLull, (planShare-1)*k.took))
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
	began := time.Now()
	wall := fleet.TimeOf(began)
	changes := k.follow(state)
	k.failures.observe(now, wall, changes.Replicas)
	s := agreed(state, wall)
	s.Models, s.Nodes, s.Replicas, s.Since = k.rows.Models, k.rows.Nodes, k.rows.Replicas, changes
	s.Backoff = k.failures.backoff(now)
	s.Backoff.Turns = k.turns.Holds(now)
	s.Demand = demand(p.term, now)
	s.QuietOf = quiet(p.term, now)
	k.sightings.Observe(now, &s)
	plan := k.planner.Plan(s)
	p.term.SetRefusals(now, plan.Refusals)
	p.term.SetAttention("planning", k.failures.setAside(now)...)
	k.turns.Note(now, s, plan.Items)
	k.sightings.Note(now, plan)
	k.took = time.Since(began)
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
		pause(ctx, planAgain)
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
	s := agreed(state, wall)
	for m := range state.Models() {
		s.Models = append(s.Models, m)
	}
	for n := range state.Nodes() {
		s.Nodes = append(s.Nodes, n)
	}
	for r := range state.Replicas() {
		s.Replicas = append(s.Replicas, r)
	}
	return s
}

// agreed is the same without the rows.
func agreed(state *fsm.State, wall fleet.Time) scheduler.Snapshot {
	s := scheduler.Snapshot{Now: wall, Settings: state.Settings(), Frozen: state.Freeze() != nil}
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

// quiet answers how long a replica has been quiet at a moment: the first answer about each is the one that stands, whatever its door says meanwhile.
func quiet(t *board.Term, now time.Duration) func(replica string) scheduler.Quiet {
	known := make(map[string]scheduler.Quiet)
	return func(replica string) scheduler.Quiet {
		q, ok := known[replica]
		if !ok {
			if v := t.Ledger.View(now, replica); v.QuietKnown && v.Markable {
				q = scheduler.Quiet{For: v.Quiet, Known: true, Mark: v.Mark}
			}
			known[replica] = q
		}
		return q
	}
}
