package main

import (
	"testing"
	"time"
)

// TestLoadsAreBounded: with a min_residence the planner loads no more often than it allows, and without one the turns still keep it well below LRU.
func TestLoadsAreBounded(t *testing.T) {
	w := Workload{Models: 5, Room: 2, Every: 10 * time.Second, Load: time.Minute, Length: 6 * time.Hour, Seed: 7}
	results := compare(w)
	for _, r := range results {
		t.Logf("%+v", r)
		if r.Served == 0 || r.Loads < w.Room {
			t.Errorf("%s with %gs: nothing happened", r.Policy, r.MinResidence)
		}
		if r.Bound > 0 && r.Loads > r.Bound {
			t.Errorf("%s with %gs: %d loads, at most %d are allowed", r.Policy, r.MinResidence, r.Loads, r.Bound)
		}
	}
	if loads := results[1].Loads; loads*2 > results[0].Loads {
		t.Errorf("without min_residence %d loads, LRU %d", loads, results[0].Loads)
	}
}
