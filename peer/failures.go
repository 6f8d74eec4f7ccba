package peer

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"berth/fleet"
	"berth/scheduler"
)

// A failure holds back what failed for a while that doubles with each failure in a row. A pair of model and node waits longer than the model
// alone, so that the next try goes to another node; a node waits when several models failed on it.
var (
	holdModel   = pace{first: 2 * time.Second, most: 5 * time.Minute}
	holdPair    = pace{first: time.Minute, most: time.Hour}
	holdNode    = pace{first: time.Minute, most: 30 * time.Minute}
	holdRestart = pace{first: time.Second, most: 5 * time.Minute}
)

// modelsBreakNode is how many models must have failed on a node, one after the other, before the node is suspected and not the models.
const modelsBreakNode = 3

// pace is how a hold grows.
type pace struct{ first, most time.Duration }

// after gives the hold after n failures in a row, up to a quarter longer at random: what failed together must not try again together.
func (p pace) after(n int) time.Duration {
	d := p.most
	if n < 20 {
		d = min(p.most, p.first<<(n-1))
	}
	return d + rand.N(d/4+1)
}

// streak is failures in a row of one thing.
type streak struct {
	count int
	until time.Duration // on the leader's clock
	cause string
}

func (s *streak) strike(p pace, at time.Duration, cause string) {
	s.count++
	s.until, s.cause = at+p.after(s.count), cause
}

// failures remembers, for one term, what failed where. It learns by looking at each state; a leader that is new takes the failed replicas that
// it finds for the failures they are.
type failures struct {
	models   map[string]*streak
	pairs    map[scheduler.Pair]*streak
	nodes    map[string]*streak
	restarts map[string]*streak
	broke    map[string]map[string]bool // node → models that failed there since one became ready
	seen     map[string]sight           // by replica
}

// sight is what was last seen of a replica.
type sight struct {
	state fleet.ReplicaState
	start uint64 // start number whose exit has been counted
	ended bool   // counted as failed
}

func newFailures() *failures {
	return &failures{
		models: make(map[string]*streak), pairs: make(map[scheduler.Pair]*streak), nodes: make(map[string]*streak),
		restarts: make(map[string]*streak), broke: make(map[string]map[string]bool), seen: make(map[string]sight),
	}
}

// observe looks at the replicas whose rows have changed. Both clocks are needed: wall says how old a failure is that happened before this term.
func (f *failures) observe(now time.Duration, wall fleet.Time, changed []scheduler.Row[fleet.Replica]) {
	for _, row := range changed {
		r := row.New
		if r == nil {
			delete(f.seen, row.Old.ID)
			delete(f.restarts, row.Old.ID)
			continue
		}
		was := f.seen[r.ID]
		is := sight{state: r.State, start: was.start, ended: was.ended}
		age := max(0, wall.Std().Sub(r.StateAt.Std()))
		switch {
		case failed(r) && !was.ended:
			is.ended = true
			f.failedAt(now-age, r)
		case r.State == fleet.Ready && was.state != fleet.Ready:
			f.succeeded(r)
		}
		if cause := exited(r); cause != "" && was.start < r.Start {
			is.start = r.Start
			strike(f.restarts, r.ID, holdRestart, now, cause)
		}
		f.seen[r.ID] = is
	}
}

func failed(r *fleet.Replica) bool {
	return r.State == fleet.Failed || r.Drain != nil && r.Drain.Failed != ""
}

// exited says how an engine of a live gang ended that has not been started again; a replica of one node is started again by its shim.
func exited(r *fleet.Replica) string {
	if !r.State.Live() || len(r.Shards) < 2 {
		return ""
	}
	for rank, s := range r.Shards {
		if s.Exit != nil {
			return fmt.Sprintf("rank %d on %s ended: %s", rank, s.Node, exitText(s.Exit))
		}
	}
	return ""
}

func exitText(e *fleet.Exit) string {
	if e.Signal != "" {
		return e.Signal
	}
	return fmt.Sprintf("exit %d", e.Code)
}

func (f *failures) failedAt(at time.Duration, r *fleet.Replica) {
	cause := r.Reason
	if r.Drain != nil && r.Drain.Failed != "" {
		cause = r.Drain.Failed
	}
	strike(f.models, r.Model, holdModel, at, cause)
	for _, node := range culprits(r) {
		strike(f.pairs, scheduler.Pair{Model: r.Model, Node: node}, holdPair, at, cause)
		if f.broke[node] == nil {
			f.broke[node] = make(map[string]bool)
		}
		f.broke[node][r.Model] = true
		if n := len(f.broke[node]); n >= modelsBreakNode {
			models := slices.Sorted(maps.Keys(f.broke[node]))
			strike(f.nodes, node, holdNode, at, fmt.Sprintf("%d models failed there (%s), last: %s", n, strings.Join(models, ", "), cause))
		}
	}
}

// culprits are the nodes whose shard ended by itself; all of them when none says so.
func culprits(r *fleet.Replica) []string {
	var ended, all []string
	for _, s := range r.Shards {
		all = append(all, s.Node)
		if s.Exit != nil {
			ended = append(ended, s.Node)
		}
	}
	if len(ended) > 0 {
		return ended
	}
	return all
}

// succeeded ends the streaks of what has just become ready.
func (f *failures) succeeded(r *fleet.Replica) {
	delete(f.models, r.Model)
	for _, s := range r.Shards {
		delete(f.pairs, scheduler.Pair{Model: r.Model, Node: s.Node})
		delete(f.nodes, s.Node)
		delete(f.broke, s.Node)
	}
}

func strike[K comparable](streaks map[K]*streak, key K, p pace, at time.Duration, cause string) {
	s := streaks[key]
	if s == nil {
		s = new(streak)
		streaks[key] = s
	}
	s.strike(p, at, cause)
}

// setAside names the nodes that take nothing for a while, a line each.
func (f *failures) setAside(now time.Duration) []string {
	var lines []string
	for _, node := range slices.Sorted(maps.Keys(f.nodes)) {
		if s := f.nodes[node]; s.until > now {
			lines = append(lines, fmt.Sprintf("node %s is set aside for %s: %s", node, (s.until-now).Round(time.Second), s.cause))
		}
	}
	return lines
}

// backoff is what is held back now.
func (f *failures) backoff(now time.Duration) scheduler.Backoff {
	return scheduler.Backoff{
		Models: holds(f.models, now), Nodes: holds(f.nodes, now), Pairs: holds(f.pairs, now), Restarts: holds(f.restarts, now),
	}
}

func holds[K comparable](streaks map[K]*streak, now time.Duration) map[K]scheduler.Hold {
	out := make(map[K]scheduler.Hold)
	for key, s := range streaks {
		if s.until > now {
			out[key] = scheduler.Hold{For: s.until - now, Cause: s.cause}
		}
	}
	return out
}
