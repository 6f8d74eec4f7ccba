package peer

import (
	"context"
	"maps"
	"slices"
	"time"

	"berth/idle"
	"berth/internal/run"
	"berth/peer/board"
)

// observations is the duty that tells history when what the leader observes begins and when it ends. A leader that is new tells what it finds.
type observations struct {
	term  *board.Term
	clock func() time.Duration
	note  func(c board.Condition, text string)
	last  map[string]board.Condition // by what they are about
}

func (o *observations) run(ctx context.Context) error {
	return run.Every(ctx, idle.Tick, func(context.Context) error {
		o.look()
		return nil
	})
}

func (o *observations) look() {
	is := make(map[string]board.Condition)
	for _, c := range o.term.Conditions(o.clock()) {
		is[c.About()] = c
		if _, lasted := o.last[c.About()]; !lasted {
			o.note(c, c.Text)
		}
	}
	for _, about := range slices.Sorted(maps.Keys(o.last)) {
		if _, lasts := is[about]; !lasts {
			c := o.last[about]
			c.Why = ""
			o.note(c, c.Over)
		}
	}
	o.last = is
}
