package scheduler

import (
	"maps"
	"time"

	"berth/fleet"
)

// Delays of the back-off after the first failure, and the longest.
const (
	firstDelay = 10 * time.Second
	lastDelay  = 10 * time.Minute
	// restartDelay is how long the ranks of a gang wait before they start again the first time.
	restartDelay     = time.Second
	lastRestartDelay = time.Minute
	// brokenAfter is how many different models must fail on a node before it is set aside for all.
	brokenAfter = 3
)

// RestartDelay is how long to wait after a gang's exit when it has been restarted so often in a row: 1 s, 2 s, 4 s, up to a minute.
func RestartDelay(restarts int) time.Duration {
	return doubling(restartDelay, lastRestartDelay, restarts)
}

func doubling(first, last time.Duration, n int) time.Duration {
	d := first
	for range n {
		if d *= 2; d >= last {
			return last
		}
	}
	return d
}

// Failures remembers which models failed where, on the caller's clock (any that only goes forward), and turns it into a Backoff. A new leader begins
// with none: at worst it retries a little early. It is not safe for concurrent use.
type Failures struct {
	models map[string]*streak
	pairs  map[Pair]*streak
	exits  map[string]exit // by replica: gangs whose engine has exited
	seen   map[string]fate // by replica, at the last Observe
}

// streak is failures in a row of one generation of a model.
type streak struct {
	generation uint64
	count      int
	at         time.Duration
	cause      string
}

// fate is what a replica proves about its model and its nodes.
type fate int

const (
	open fate = iota
	worked
	broke
)

func fateOf(r *fleet.Replica) fate {
	switch {
	case r.State == fleet.Ready:
		return worked
	case r.State == fleet.Failed, failing(r):
		return broke
	default:
		return open
	}
}

// failing says whether a replica is on its way to failed: its engines are being ended.
func failing(r *fleet.Replica) bool {
	return r.State == fleet.DrainingDown && r.Drain != nil && r.Drain.Failed != ""
}

// exit is when an exit was first seen, and under which start number.
type exit struct {
	start uint64
	at    time.Duration
}

// NewFailures returns an empty memory.
func NewFailures() *Failures {
	return &Failures{models: map[string]*streak{}, pairs: map[Pair]*streak{}, exits: map[string]exit{}, seen: map[string]fate{}}
}

// Observe looks at a snapshot taken at a moment for what has become ready and what has failed since the one before. A replica that becomes ready proves
// that its model is not broken, nor its nodes for it; one that failed counts against both, if it is of the model's present generation.
func (f *Failures) Observe(at time.Duration, s Snapshot) {
	p := newPlanner(s)
	f.forget(p)
	seen := make(map[string]fate, len(s.Replicas))
	var failed []*fleet.Replica
	for _, r := range s.Replicas {
		now, m := fateOf(r), p.models[r.Model]
		seen[r.ID] = now
		switch changed := f.seen[r.ID] != now; {
		case !changed || m == nil || m.Generation != r.Generation:
		case now == worked:
			f.succeeded(r)
		case now == broke:
			failed = append(failed, r)
		}
		f.exit(at, r)
	}
	for _, r := range failed { // after the successes: who saw neither before assumes the worse
		f.failed(at, r)
	}
	f.seen = seen
}

// forget drops what is said of models, generations, nodes and replicas that are no more.
func (f *Failures) forget(p *planner) {
	current := func(model string, s *streak) bool {
		m := p.models[model]
		return m != nil && m.Generation == s.generation
	}
	maps.DeleteFunc(f.models, func(model string, s *streak) bool { return !current(model, s) })
	maps.DeleteFunc(f.pairs, func(k Pair, s *streak) bool { return !current(k.Model, s) || p.nodes[k.Node] == nil })
	exists := make(map[string]bool, len(p.Snapshot.Replicas))
	for _, r := range p.Snapshot.Replicas {
		exists[r.ID] = true
	}
	maps.DeleteFunc(f.exits, func(id string, _ exit) bool { return !exists[id] })
}

func (f *Failures) succeeded(r *fleet.Replica) {
	delete(f.models, r.Model)
	for _, s := range r.Shards {
		delete(f.pairs, Pair{r.Model, s.Node})
	}
}

func (f *Failures) failed(now time.Duration, r *fleet.Replica) {
	note(f.models, r.Model, now, r)
	for _, s := range r.Shards {
		note(f.pairs, Pair{r.Model, s.Node}, now, r)
	}
}

func note[K comparable](m map[K]*streak, key K, now time.Duration, r *fleet.Replica) {
	s := m[key]
	if s == nil {
		s = &streak{generation: r.Generation}
		m[key] = s
	}
	s.count++
	s.at, s.cause = now, r.Reason
}

func (f *Failures) exit(now time.Duration, r *fleet.Replica) {
	if exited(r) < 0 || !r.State.Live() {
		delete(f.exits, r.ID)
	} else if old, ok := f.exits[r.ID]; !ok || old.start != r.Start {
		f.exits[r.ID] = exit{r.Start, now}
	}
}

// Backoff returns what is held back at now: a model for 10 s after its first failure and twice as long after each further one in a row, up to ten
// minutes; a model on the node where it failed for twice that, so that the retry goes elsewhere when there is an elsewhere; and a node where three
// different models failed within the longest delay for that delay. A gang's ranks wait for RestartDelay after their exit was first seen.
func (f *Failures) Backoff(now time.Duration, replicas []*fleet.Replica) Backoff {
	b := Backoff{Models: map[string]Hold{}, Nodes: map[string]Hold{}, Pairs: map[Pair]Hold{}, Restarts: map[string]Hold{}}
	for name, s := range f.models {
		if left := s.left(now, 1); left > 0 {
			b.Models[name] = Hold{left, s.cause}
		}
	}
	for _, r := range replicas {
		if e, ok := f.exits[r.ID]; ok {
			if left := e.at + RestartDelay(r.Restarts) - now; left > 0 {
				b.Restarts[r.ID] = Hold{left, lastExit(r)}
			}
		}
	}
	recent := map[string]int{}
	for p, s := range f.pairs {
		if left := s.left(now, 2); left > 0 {
			b.Pairs[p] = Hold{left, s.cause}
		}
		if left := s.at + lastDelay - now; left > 0 {
			recent[p.Node]++
			b.setAside(p.Node, left, s.cause)
		}
	}
	for node, n := range recent {
		if n < brokenAfter {
			delete(b.Nodes, node)
		}
	}
	return b
}

func (s *streak) left(now time.Duration, times time.Duration) time.Duration {
	return s.at + times*doubling(firstDelay, lastDelay, s.count-1) - now
}

// setAside holds a node until its newest failure is old; of equal ones the lesser cause, so that no order of a map shows.
func (b Backoff) setAside(node string, left time.Duration, cause string) {
	if h := b.Nodes[node]; left > h.For || left == h.For && cause < h.Cause {
		b.Nodes[node] = Hold{left, cause}
	}
}
