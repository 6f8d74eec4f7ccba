package idle_test

import (
	"flag"
	"testing"
	"time"
)

var (
	simFaults = flag.Int("sim.faults", 60_000, "faults to inject into the simulation of the ledger")
	simSeed   = flag.Uint64("sim.seed", 0, "first seed of the simulation; 0 takes one from the clock")
)

func seed(t *testing.T) uint64 {
	s := *simSeed
	if s == 0 {
		s = uint64(time.Now().UnixNano())
	}
	t.Logf("replay with -sim.seed=%d", s)
	return s
}

// TestNeverQuietLongerThanTrue plays random schedules of faults until enough have been injected.
func TestNeverQuietLongerThanTrue(t *testing.T) {
	first := seed(t)
	var sum tally
	var faults int
	var simulated time.Duration
	for n := first; faults < *simFaults; n++ {
		w := newWorld(n, false)
		w.harsh()
		if err := w.run(10 * time.Minute); err != nil {
			t.Fatalf("-sim.seed=%d: %v", n, err)
		}
		faults += w.faults
		simulated += w.now
		sum.add(w.tally)
	}
	t.Logf("%d faults in %s simulated; %d answers, %d known, %d of more than a minute, the longest %s; %d idle",
		faults, simulated, sum.probes, sum.known, sum.long, sum.longest, sum.idle)
	if sum.known < sum.probes/10 || sum.long < sum.probes/100 || sum.longest < 5*time.Minute || sum.idle < sum.probes/10 {
		t.Error("too little was known for the run to mean anything")
	}
}

// TestUnknownHasAnEnd plays schedules in which agents are heard while routers and leaders come and go.
func TestUnknownHasAnEnd(t *testing.T) {
	first := seed(t)
	var sum tally
	var faults int
	for n := first; n < first+uint64(*simFaults/2000); n++ {
		w := newWorld(n, true)
		w.mild()
		if err := w.run(10 * time.Minute); err != nil {
			t.Fatalf("-sim.seed=%d: %v", n, err)
		}
		faults += w.faults
		sum.add(w.tally)
	}
	t.Logf("%d faults; %d answers, %d known, %d of more than a minute", faults, sum.probes, sum.known, sum.long)
}

func (t *tally) add(o tally) {
	t.probes += o.probes
	t.known += o.known
	t.long += o.long
	t.idle += o.idle
	t.longest = max(t.longest, o.longest)
}
