package sim

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"berth/consensus"
	"berth/fleet"
	"berth/fsm"
	"berth/gossip"
)

var (
	seedFlag    = flag.Uint64("sim.seed", 0, "run each scenario once with this seed; 0: seeds at random")
	forFlag     = flag.Duration("sim.for", 0, "go on with new seeds for this long; 0: each scenario once")
	storiesFlag = flag.String("sim.stories", os.TempDir(), "folder for the stories of runs that fail")
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// small makes snapshots come often, so that the rare paths behind them are walked always.
var small = consensus.Timings{SnapshotThreshold: 50, SnapshotInterval: 2 * time.Second, TrailingLogs: 200}

// plans are the scenarios. Peers have raft's default timers in all of them.
func plans() []plan {
	return []plan{
		{title: "safety-3", peers: 3, nodes: 3, length: 2 * time.Minute, every: 600 * time.Millisecond, faults: usual()},
		{title: "liveness-3", peers: 3, nodes: 3, length: time.Minute, every: 900 * time.Millisecond, faults: usual(), heals: true},
		{title: "safety-5-members", peers: 5, nodes: 2, length: 2 * time.Minute, every: 700 * time.Millisecond, faults: membership()},
		{title: "liveness-5-members", peers: 5, nodes: 2, length: time.Minute, every: 1200 * time.Millisecond, faults: membership(), heals: true},
		{title: "liveness-3-snapshots", peers: 3, nodes: 2, length: time.Minute, every: 900 * time.Millisecond, faults: usual(), heals: true, timings: small},
		{title: "liveness-3-restores", peers: 3, nodes: 2, length: time.Minute, every: 1200 * time.Millisecond, faults: restores(), heals: true},
	}
}

func TestSimulation(t *testing.T) {
	counts, began := newTally(), time.Now()
	var next atomic.Int64
	var workers sync.WaitGroup
	for range runtime.GOMAXPROCS(0) { // a bubble hands one thread's work around, so there is one for each processor
		workers.Go(func() {
			for {
				n := int(next.Add(1)) - 1
				if n >= len(plans()) && time.Since(began) >= *forFlag {
					return
				}
				p, seed := plans()[n%len(plans())], *seedFlag
				if seed == 0 {
					seed = rand.Uint64()
				}
				t.Run(fmt.Sprintf("%s/%d", p.title, seed), func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) { run(t, p, seed, counts) })
				})
			}
		})
	}
	workers.Wait()
	t.Log(counts.report(time.Since(began)))
}

// run is one run of a plan.
func run(t *testing.T, p plan, seed uint64, counts *tally) {
	began := time.Now()
	w := newWorld(t, p, seed, counts)
	w.operator = &operator{user: w.user(9)}
	defer func() {
		w.close()
		time.Sleep(gossip.Linger)
		counts.ran(time.Since(began))
		counts.add("fingerprints compared", w.book.matches)
		for _, text := range w.story.broken() {
			t.Error(text)
		}
	}()
	if !w.healthy(time.Minute) {
		return
	}
	alive, endAgents := context.WithCancel(t.Context())
	defer endAgents()
	for i := range p.nodes {
		w.farm = append(w.farm, w.node(i))
		w.wg.Go(func() { w.farm[i].live(alive) })
	}
	w.storm()
	if p.heals {
		w.recover()
	}
	w.book.check()
}

// storm is the time of the faults: everybody works, and nothing is spared.
func (w *world) storm() {
	ctx, end := context.WithTimeout(w.t.Context(), w.length)
	defer end()
	var clients sync.WaitGroup
	for i := range 3 {
		clients.Go(func() { w.user(i).work(ctx) })
	}
	clients.Go(func() { w.user(3).operate(ctx) })
	w.rage(ctx)
	clients.Wait()
}

// recover ends all faults, starts what is down, and wants everything right within a minute.
func (w *world) recover() {
	w.story.say("story", "the faults end")
	began := time.Now()
	w.do(func() {
		healNetwork(w, w.t.Context())
		healDisk(w, w.t.Context())
	})
	if !w.healthy(time.Minute) {
		return
	}
	w.tally.add("recoveries", 1)
	w.tally.add("seconds of recovery in all", int(time.Since(began).Seconds()))
	w.do(func() { w.book.checkFinal(w.running()[0].peer.State()) })
}

// healthy waits until everything is right: every peer runs and has a vote, all hold the same state, one write was accepted by each, and each
// replica wanted is ready. It says what was not.
func (w *world) healthy(limit time.Duration) bool {
	probe := w.user(8 - 1)
	deadline := time.Now().Add(limit)
	for {
		problem := w.problem(probe)
		if problem == "" {
			return true
		}
		if time.Now().After(deadline) {
			w.story.wrong("not right within %v: %s", limit, problem)
			return false
		}
		time.Sleep(500 * time.Millisecond)
	}
}

func (w *world) problem(probe *user) (problem string) {
	w.do(func() {
		for _, s := range w.down() {
			w.start(s)
		}
		if len(w.running()) != w.members() {
			problem = "a peer is still ending"
		}
	})
	if problem == "" {
		problem = w.unwell(probe)
	}
	return problem
}

func (w *world) unwell(probe *user) string {
	ctx, end := context.WithTimeout(w.t.Context(), attemptWait)
	defer end()
	probe.made++
	for i, addr := range w.urls(probe.dice) {
		if _, err := probe.one(ctx, addr, putModel(spec("probe", fmt.Sprintf("%d.%d", probe.made, i))), nil); err != nil {
			return fmt.Sprintf("%s does not take a write: %v", addr, err)
		}
	}
	time.Sleep(500 * time.Millisecond) // followers hear of a commit with the next message
	views, err := probe.peers(ctx)
	if err != nil {
		return err.Error()
	}
	return w.differences(views)
}

func (w *world) differences(views map[string]bool) (problem string) {
	w.do(func() {
		prints := map[string]string{}
		for _, s := range w.running() {
			st := s.peer.State()
			prints[st.Index().String()+" "+st.Fingerprint()] = s.name
			if !views[s.name] {
				problem = s.name + " has no vote"
			}
			if ready, want := placed(st); ready < min(want, len(w.farm)*cards) {
				problem = fmt.Sprintf("%s sees %d of %d replicas ready, on %d cards", s.name, ready, want, len(w.farm)*cards)
			}
		}
		if len(prints) > 1 {
			problem = fmt.Sprintf("the peers hold different states: %v", prints)
		}
		if len(views) != len(w.running()) {
			problem = fmt.Sprintf("the configuration has %d peers and %d run", len(views), len(w.running()))
		}
	})
	return problem
}

// placed counts the replicas that are ready and those that are wanted.
func placed(st *fsm.State) (ready, want int) {
	for m := range st.Models() {
		if !m.Deleting {
			want += m.Want
		}
	}
	for r := range st.Replicas() {
		if r.State == fleet.Ready {
			ready++
		}
	}
	return ready, want
}
