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
	all := faults{}
	var simulated time.Duration
	served, bypassed := 0, 0
	for n := first; all.sum() < *simFaults; n++ {
		w := newWorld(n, false)
		w.harsh()
		if err := w.run(10 * time.Minute); err != nil {
			t.Fatalf("-sim.seed=%d: %v", n, err)
		}
		all.add(w.faults)
		simulated += w.now
		served, bypassed = served+w.served, bypassed+w.bypassed
		sum.add(w.tally)
	}
	t.Logf("%d faults in %.1f hours simulated: %s", all.sum(), simulated.Hours(), all)
	t.Logf("%d answers, %d known, %d of more than a minute, the longest %s; %d idle",
		sum.probes, sum.known, sum.long, sum.longest, sum.idle)
	t.Logf("%d requests through routers, %d around all of them", served, bypassed)
	if sum.known < sum.probes/10 || sum.long < sum.probes/100 || sum.longest < 5*time.Minute || sum.idle < sum.probes/10 {
		t.Error("too little was known for the run to mean anything")
	}
}

// TestUnknownHasAnEnd plays schedules in which agents are heard while routers and leaders come and go.
func TestUnknownHasAnEnd(t *testing.T) {
	first := seed(t)
	var sum tally
	all := faults{}
	for n := first; n < first+uint64(*simFaults/2000); n++ {
		w := newWorld(n, true)
		w.mild()
		if err := w.run(10 * time.Minute); err != nil {
			t.Fatalf("-sim.seed=%d: %v", n, err)
		}
		all.add(w.faults)
		sum.add(w.tally)
	}
	t.Logf("%d faults: %s; %d answers, %d known, %d of more than a minute", all.sum(), all, sum.probes, sum.known, sum.long)
}

func (t *tally) add(o tally) {
	t.probes += o.probes
	t.known += o.known
	t.long += o.long
	t.idle += o.idle
	t.longest = max(t.longest, o.longest)
}
