package pool

import (
	"time"

	"berth/fleet"
)

// Hint is what is known of a request beside its model. It belongs to one request, and is handed to each Acquire for it.
type Hint struct {
	// Prompt is what a policy that knows prompts chooses by; its zero value is fine.
	Prompt Prompt
	// Key names the client, so that one client's many requests do not go before another's few when they must wait.
	Key string
	// Stream says that the answer comes token by token, so that its tokens can be seen to move.
	Stream bool
	// Avoid lists replicas that have failed this request and must not get it again.
	Avoid []string
	// Arrived is when the request came, if it has waited before; it bounds the waiting in total. Zero: now.
	Arrived time.Time
	// Waiting, if set, is called in the goroutine of Acquire while the request waits: first WaitingAfter its arrival,
	// then each WaitingEvery. Its error ends the waiting and is what Acquire returns.
	Waiting                    func() error
	WaitingAfter, WaitingEvery time.Duration
	// Stop, if set, ends the waiting when it is closed: this router is about to go.
	Stop <-chan struct{}

	beat time.Time // when Waiting is due next; kept over the several waits of one request
}

// policy chooses among candidates that are all equally allowed to take a request. It runs under the model's lock, must
// not keep the slice, and returns an index. start counts up by one a choice, so that a policy can let equals take turns.
type policy interface {
	pick(m *model, hint *Hint, candidates []*replica, start int) int
}

// policyOf returns the policy of that name; one from a newer release counts as the default.
func policyOf(name string) policy {
	switch name {
	case "round-robin":
		return roundRobin{}
	case "least-loaded":
		return leastLoaded{}
	case "prefix-bounded":
		return prefixBounded{}
	}
	return ttft{}
}

// knowsPrompts says whether a policy makes use of [Hint.Prompt].
func knowsPrompts(p policy) bool { return p == ttft{} || p == prefixBounded{} }

// leastLoaded takes the replica with the least in flight. Equals take turns, also within a burst, because counts rise at
// the moment of choice.
type leastLoaded struct{}

func (leastLoaded) pick(_ *model, _ *Hint, c []*replica, start int) int {
	best := start % len(c)
	for i := 1; i < len(c); i++ {
		if j := (start + i) % len(c); c[j].inFlight < c[best].inFlight {
			best = j
		}
	}
	return best
}

type roundRobin struct{}

func (roundRobin) pick(_ *model, _ *Hint, c []*replica, start int) int { return start % len(c) }

// lack is why no replica was chosen. Greater ones go before lesser ones when replicas differ.
type lack int

const (
	lacksReplica lack = iota // there is none: wait, it may be started
	lacksOther               // those there are have all failed this request
	lacksHealth              // those there are are set aside because they failed
	lacksRoom                // all are full, or shut for a moment: wait
)

// choose returns a replica for a request, or why there is none and, if that passes by itself, when. It prefers replicas
// that are neither lost nor being unloaded; then one that is being unloaded, if no other could take requests at all;
// then a lost one. The model's lock is held.
// (DESIGN §8, rule 11, and §9.)
func (m *model) choose(hint *Hint) (*replica, lack, time.Time) {
	var now time.Time
	if m.troubled > 0 {
		now = time.Now()
	}
	why, until := lacksReplica, time.Time{}
	for _, tier := range []func(*replica) bool{isPlain, isConditional, isLost} {
		r, w, t := m.chooseAmong(tier, hint, now)
		if r != nil {
			return r, 0, t
		}
		why = max(why, w)
		if !t.IsZero() && (until.IsZero() || t.Before(until)) {
			until = t
		}
		if w == lacksRoom && t.IsZero() {
			// Healthy and full. An unload must not be undone for that; a lost one may help out.
			if r, _, _ := m.chooseAmong(isLost, hint, now); r != nil {
				return r, 0, until
			}
			break
		}
	}
	return nil, why, until
}

func isPlain(r *replica) bool       { return !r.Lost && r.State == fleet.Ready }
func isConditional(r *replica) bool { return !r.Lost && r.Conditional && r.State == fleet.DrainingDown }
func isLost(r *replica) bool        { return r.Lost }

func (m *model) chooseAmong(tier func(*replica) bool, hint *Hint, now time.Time) (*replica, lack, time.Time) {
	why, until := lacksReplica, time.Time{}
	candidates := m.scratch[:0]
	for _, r := range m.replicas {
		if !tier(r) || r.trouble.wrongKey {
			continue
		}
		w, t := m.obstacle(r, hint, now)
		if w == lacksReplica {
			candidates = append(candidates, r)
			continue
		}
		why = max(why, w)
		if !t.IsZero() && (until.IsZero() || t.Before(until)) {
			until = t
		}
	}
	if len(candidates) == 0 {
		return nil, why, until
	}
	m.turn++
	return candidates[m.policy.pick(m, hint, candidates, m.turn)], 0, time.Time{}
}

// obstacle says what keeps a replica from taking a request, and until when; lacksReplica means nothing does.
func (m *model) obstacle(r *replica, hint *Hint, now time.Time) (lack, time.Time) {
	for _, id := range hint.Avoid {
		if id == r.Replica {
			return lacksOther, time.Time{}
		}
	}
	if r.trouble.any() {
		if w, t := r.trouble.obstacle(now); w != lacksReplica {
			return w, t
		}
	}
	if limit := m.row.Serve.MaxInFlight; limit > 0 && r.inFlight >= limit {
		return lacksRoom, time.Time{}
	}
	return lacksReplica, time.Time{}
}
