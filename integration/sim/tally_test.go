package sim

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"
)

// tally counts over all runs.
type tally struct {
	mu        sync.Mutex
	runs      int
	simulated time.Duration
	faults    map[string]int
	repairs   map[string]int
	counts    map[string]int
}

func newTally() *tally {
	return &tally{faults: map[string]int{}, repairs: map[string]int{}, counts: map[string]int{}}
}

func (t *tally) fault(f fault) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if f.repair {
		t.repairs[f.kind]++
		return
	}
	t.faults[f.kind]++
}

func (t *tally) add(what string, n int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.counts[what] += n
}

func (t *tally) ran(d time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.runs++
	t.simulated += d
}

func (t *tally) total() (n int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, k := range t.faults {
		n += k
	}
	return n
}

// report is the figures for people.
func (t *tally) report(wall time.Duration) string {
	total := t.total()
	t.mu.Lock()
	defer t.mu.Unlock()
	var b strings.Builder
	fmt.Fprintf(&b, "%d runs, %.2f simulated cluster-hours in %v of wall time (%.0f ×), %d faults, %.1f a simulated minute\n",
		t.runs, t.simulated.Hours(), wall.Round(time.Second), t.simulated.Seconds()/max(wall.Seconds(), 1), total, float64(total)/max(t.simulated.Minutes(), 1))
	groups := []struct {
		title string
		of    map[string]int
	}{{"faults", t.faults}, {"repairs", t.repairs}, {"seen", t.counts}}
	for _, g := range groups {
		fmt.Fprintf(&b, "%s\n", g.title)
		for _, k := range slices.Sorted(maps.Keys(g.of)) {
			fmt.Fprintf(&b, "  %-28s %7d\n", k, g.of[k])
		}
	}
	return b.String()
}
