package scheduler

import (
	"maps"
	"slices"
	"time"

	"berth/fleet"
)

// How long a model that made room for another waits before it may make others go: the first time, and at most. Without this, two models that do
// not fit together and have no min_residence would chase each other with every request.
const (
	firstTurn = 30 * time.Second
	lastTurn  = 10 * time.Minute
	// turnsForgotten is after how long without an eviction a model begins anew.
	turnsForgotten = time.Hour
)

// Turns remembers, for one term, which models made room for others, on the caller's clock. A new leader begins with none: at worst each model
// gets its next turn a little early. It is not safe for concurrent use.
type Turns struct{ models map[string]turn }

type turn struct {
	count int
	at    time.Duration
}

// NewTurns returns an empty memory.
func NewTurns() *Turns { return &Turns{models: map[string]turn{}} }

// Note looks through a plan for evictions: stops for quiet that the model's own unload_after did not ask for.
func (t *Turns) Note(at time.Duration, s Snapshot, items []fleet.PlanItem) {
	maps.DeleteFunc(t.models, func(_ string, x turn) bool { return at-x.at > turnsForgotten })
	if !slices.ContainsFunc(items, func(i fleet.PlanItem) bool { return i.Stop != nil && i.Stop.Mark != nil }) {
		return
	}
	p := newPlanner(s)
	for _, item := range items {
		if item.Stop == nil || item.Stop.Mark == nil {
			continue
		}
		for _, r := range s.Replicas {
			if m := p.models[r.Model]; r.ID == item.Stop.Replica && m != nil && !p.due(m, r) {
				t.models[r.Model] = turn{t.models[r.Model].count + 1, at}
			}
		}
	}
}

// Holds returns the models whose turn to make others go has not come yet.
func (t *Turns) Holds(now time.Duration) map[string]Hold {
	out := map[string]Hold{}
	for model, x := range t.models {
		if left := x.at + doubling(firstTurn, lastTurn, x.count-1) - now; left > 0 {
			out[model] = Hold{left, "it made room for another model"}
		}
	}
	return out
}

// doubling is first, twice that, and so on, n times, but never more than last.
func doubling(first, last time.Duration, n int) time.Duration {
	d := first
	for range n {
		if d *= 2; d >= last {
			return last
		}
	}
	return d
}
