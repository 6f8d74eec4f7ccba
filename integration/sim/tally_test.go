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
	counts    map[string]int
}

func newTally() *tally { return &tally{faults: map[string]int{}, counts: map[string]int{}} }

func (t *tally) fault(kind string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.faults[kind]++
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
	for _, group := range []map[string]int{t.faults, t.counts} {
		for _, k := range slices.Sorted(maps.Keys(group)) {
			fmt.Fprintf(&b, "  %-28s %7d\n", k, group[k])
		}
	}
	return b.String()
}
