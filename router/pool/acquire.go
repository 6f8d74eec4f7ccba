package pool

import (
	"context"
	"time"

	"berth/fleet"
	"berth/fleet/wire"
)

// Lease is the right to send one request to one replica. It must be released exactly once; a second Release does
// nothing. It must not be copied while it is held.
type Lease struct {
	Endpoint wire.Endpoint

	model   *model
	replica *replica
	life    context.Context // see Hung
	end     context.Context // see Dead
	trial   bool
	stream  bool
	begun   bool
	guess   guess
}

// Refusal is why Acquire gives no replica: NotFound for an unknown model, NotReady for all else.
type Refusal struct {
	Reason     *fleet.Error
	RetryAfter time.Duration // when to come again; 0: it would not help
	// Exhausted says that every replica has failed this very request (Hint.Avoid).
	Exhausted bool
}

// Error implements error.
func (r *Refusal) Error() string { return r.Reason.Error() }

// Unwrap gives the error as the API knows it.
func (r *Refusal) Unwrap() error { return r.Reason }

func refuse(after time.Duration, format string, args ...any) *Refusal {
	return &Refusal{Reason: fleet.Errorf(fleet.NotReady, format, args...), RetryAfter: after}
}

// retrySoon is what clients are told when nothing better is known.
const retrySoon = time.Second

// Acquire chooses a replica of the model (name or alias) and counts the request on it. While all are full, or the model
// has none, it waits: at most serve.queue.limit requests a model, each at most serve.queue.timeout. It does not wait for
// what waiting cannot mend. Errors are a [*Refusal], what Hint.Waiting returned, or the context's.
func (p *Pool) Acquire(ctx context.Context, name string, hint *Hint) (Lease, error) {
	v := p.view.Load()
	if v == nil {
		return Lease{}, refuse(retrySoon, "this router has no routing table yet")
	}
	m, ok := v.models[name]
	if !ok {
		return Lease{}, unknown(name)
	}
	if hint == nil {
		hint = &Hint{}
	}
	m.mu.Lock()
	if len(m.waiting) == 0 || len(hint.Avoid) > 0 { // who comes back for another replica has waited already
		if r, _, _ := m.choose(hint); r != nil {
			l := m.take(r, hint)
			m.mu.Unlock()
			return l, nil
		}
	}
	w, err := m.enqueue(hint)
	m.mu.Unlock()
	if err != nil {
		return Lease{}, err
	}
	return m.wait(ctx, w)
}

func unknown(name string) *Refusal {
	return &Refusal{Reason: fleet.Errorf(fleet.NotFound, "the model %q does not exist", name)}
}

// take counts a request on the replica, now. The model's lock is held.
// Here and in Release a use gets its time (DESIGN §8, rule 1).
func (m *model) take(r *replica, hint *Hint) Lease {
	r.inFlight++
	now := m.pool.clock.now()
	r.used = stamp{at: now, known: true}
	l := Lease{Endpoint: r.Endpoint, model: m, replica: r, life: r.life.ctx, end: r.end.ctx, stream: hint.Stream}
	if l.stream {
		r.motion.streams++
	}
	if knowsPrompts(m.policy) {
		l.guess = m.expect(r, hint, now)
	}
	if r.trouble.open() {
		l.trial, r.trouble.trying = true, true
	}
	return l
}

// Answered says that the replica has begun to answer: its headers came, or for a stream the first byte of its body,
// since headers of a stream are no proof of a token. It lets others go where this request was a trial; the verdict of
// Release still counts.
func (l *Lease) Answered() {
	if l.replica == nil || l.begun {
		return
	}
	l.replica.moves.Add(1)
	l.model.mu.Lock()
	defer l.model.mu.Unlock()
	l.begun = true
	if l.stream {
		l.replica.motion.begun++
		l.first()
	}
	if l.trial {
		l.judge(Served)
	}
}

// first learns from the first byte of a stream. The model's lock is held.
func (l *Lease) first() {
	if !l.guess.made {
		return // the policy does not care
	}
	now := l.model.pool.clock.now()
	l.model.met(l.replica, &l.guess, now)
	l.replica.queue.leave(now, l.guess.compute, true)
}

// Release ends the request: it is no longer in flight and the replica was used until now.
func (l *Lease) Release(v Verdict) {
	if l.replica == nil {
		return
	}
	m, r := l.model, l.replica
	m.mu.Lock()
	defer m.mu.Unlock()
	r.inFlight--
	if l.stream {
		r.motion.streams--
		if l.begun {
			r.motion.begun--
		} else if l.guess.made {
			r.queue.leave(0, l.guess.compute, false)
		}
	}
	r.used = stamp{at: m.pool.clock.now(), known: true}
	if v != Nothing && (v != Served || r.trouble.any()) || l.trial {
		l.judge(v)
	}
	l.replica = nil
	if len(m.waiting) > 0 {
		m.serveWaiting()
	}
}

// judge takes a verdict. The model's lock is held.
func (l *Lease) judge(v Verdict) {
	l.replica.trouble.learn(v, l.trial, time.Now())
	l.trial = false
	l.model.countTrouble()
	if len(l.model.waiting) > 0 {
		l.model.serveWaiting()
	}
}
