package idle_test

import (
	"container/heap"
	"fmt"
	"math/rand/v2"
	"time"

	"berth/fleet/wire"
)

// The simulation is an event queue in true time. Every machine has a clock of its own that drifts; nothing in it waits or
// sleeps. What the engines receive is written down by the oracle (sim_oracle_test.go), which knows nothing of package idle.

// world is one schedule.
type world struct {
	rng    *rand.Rand
	now    time.Duration // true time
	queue  events
	order  uint64
	gentle bool // agents are always heard and nothing arrives late: the schedules in which unknown must have an end

	oracle  *oracle
	peers   []*peer
	nodes   []*node
	routers []*router
	placed  int

	served, bypassed int // requests through routers, and around all of them

	term    uint64
	leader  *peer
	settled time.Duration // when every peer knew of the leader
	issued  map[wire.Stamp]time.Duration

	faults faults
	tally  tally
}

// tally shows that a run was not vacuous.
type tally struct {
	probes, known, long, idle int
	longest                   time.Duration
	err                       error
}

type event struct {
	at    time.Duration
	order uint64
	do    func()
}

type events []event

func (q events) Len() int { return len(q) }
func (q events) Less(i, j int) bool {
	return q[i].at < q[j].at || q[i].at == q[j].at && q[i].order < q[j].order
}
func (q events) Swap(i, j int) { q[i], q[j] = q[j], q[i] }
func (q *events) Push(x any)   { *q = append(*q, x.(event)) }
func (q *events) Pop() any {
	last := len(*q) - 1
	e := (*q)[last]
	(*q)[last] = event{}
	*q = (*q)[:last]
	return e
}

func newWorld(seed uint64, gentle bool) *world {
	w := &world{
		rng: rand.New(rand.NewPCG(seed, 8)), gentle: gentle,
		oracle: &oracle{replicas: make(map[string]*truth)}, issued: make(map[wire.Stamp]time.Duration), faults: faults{},
	}
	for i := range 3 {
		w.peers = append(w.peers, newPeer(w, i))
	}
	for i := range 3 {
		w.nodes = append(w.nodes, newNode(w, i))
	}
	for i := range 3 {
		w.routers = append(w.routers, newRouter(w, i))
	}
	for range 6 {
		w.place()
	}
	w.elect(w.peers[0])
	w.every(time.Second, func() { w.probe(w.leader) })
	for _, n := range w.nodes {
		w.after(w.upTo(time.Second), n.request)
	}
	return w
}

// run plays the schedule to the given true time, or to the first violation.
func (w *world) run(until time.Duration) error {
	for len(w.queue) > 0 && w.tally.err == nil {
		e := heap.Pop(&w.queue).(event)
		if e.at > until {
			return nil
		}
		w.now = e.at
		e.do()
	}
	return w.tally.err
}

func (w *world) after(d time.Duration, do func()) {
	w.order++
	heap.Push(&w.queue, event{w.now + d, w.order, do})
}

func (w *world) every(d time.Duration, do func()) {
	w.after(w.upTo(d), func() {
		do()
		w.again(d, do)
	})
}

func (w *world) again(d time.Duration, do func()) {
	w.after(d, func() {
		do()
		w.again(d, do)
	})
}

func (w *world) upTo(d time.Duration) time.Duration { return time.Duration(w.rng.Int64N(int64(d))) }
func (w *world) chance(p float64) bool              { return w.rng.Float64() < p }

func pick[T any](w *world, list []T) T { return list[w.rng.IntN(len(list))] }

func (w *world) fault(kind string) { w.faults[kind]++ }

func (w *world) fail(format string, args ...any) {
	if w.tally.err == nil {
		w.tally.err = fmt.Errorf("after %s: "+format, append([]any{w.now}, args...)...)
	}
}

// post carries a message: soon, and in the harsh schedules sometimes late, twice, or never.
func (w *world) post(deliver func()) {
	if w.gentle {
		w.after(w.upTo(5*time.Millisecond), deliver)
		return
	}
	switch {
	case w.chance(0.01):
		w.fault("messages lost")
		return
	case w.chance(0.01):
		w.fault("messages repeated late")
		w.after(w.upTo(time.Minute), deliver)
	case w.chance(0.01):
		w.fault("messages repeated")
		w.after(w.upTo(5*time.Second), deliver)
	}
	w.after(w.upTo(30*time.Millisecond), deliver)
}

// clock is a machine's time since boot: it drifts and never stops.
type clock struct {
	off time.Duration
	ppm int64
}

func (w *world) newClock() clock {
	return clock{w.upTo(1000 * time.Hour), w.rng.Int64N(401) - 200}
}

func (c clock) at(t time.Duration) time.Duration {
	return c.off + t + t/1_000_000*time.Duration(c.ppm)
}
