package peer

import (
	"log/slog"
	"slices"
	"testing"
	"time"

	"berth/fleet"
	"berth/peer/board"
)

// What the leader observes is told once when it begins and once when it ends, however long it lasts and however its reason is worded.
func TestAnObservationIsToldWhenItBeginsAndWhenItEnds(t *testing.T) {
	m := stateOf(t, registration("n1", 1))
	now := time.Hour
	clock := func() time.Duration { return now }
	term, end := board.New(board.Config{Peer: "p1", State: m.State, Clock: clock, Log: slog.New(slog.DiscardHandler)}).Lead(1)
	defer end()
	var told []string
	o := &observations{term: term, clock: clock, note: func(c board.Condition, text string) { told = append(told, c.Model+c.Node+": "+text+" | "+c.Why) }}
	expect := func(want ...string) {
		t.Helper()
		if o.look(); !slices.Equal(told, want) {
			t.Errorf("told %q, want %q", told, want)
		}
		told = nil
	}
	expect()
	term.SetRefusals(now, []fleet.Refusal{{Model: "big", Short: 1, Reason: "no room"}})
	expect("big: not placed | no room")
	term.SetRefusals(now, []fleet.Refusal{{Model: "big", Short: 1, Reason: "less room"}})
	expect()
	now += time.Minute
	expect("n1: its agent is silent | ")
	term.SetRefusals(now, nil)
	expect("big: no longer refused a place | ")
}
