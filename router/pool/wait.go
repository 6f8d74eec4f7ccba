package pool

import (
	"context"
	"slices"
	"time"
)

// waiter is a request that waits for a replica.
type waiter struct {
	hint    *Hint
	arrived time.Time
	round   uint64
	granted chan grant // one is sent, by whoever takes the waiter out of the queue
}

type grant struct {
	lease Lease
	err   error
}

// enqueue lets a request wait, or says why it must not. The model's lock is held.
func (m *model) enqueue(hint *Hint) (*waiter, error) {
	if m.row == nil {
		return nil, unknown(m.name)
	}
	if err := m.hopeless(hint); err != nil {
		return nil, err
	}
	if limit := m.row.Serve.Queue.Limit; len(m.waiting) >= limit && !m.displace(hint.Key) {
		m.knocked = true
		return nil, m.crowded()
	}
	w := &waiter{hint: hint, arrived: hint.Arrived, granted: make(chan grant, 1)}
	if w.arrived.IsZero() {
		w.arrived = time.Now()
	}
	m.line(w)
	return w, nil
}

func (m *model) crowded() *Refusal {
	return refuse(retrySoon, "%d requests wait for %s already, and no more may", len(m.waiting), m.name)
}

// hopeless says why waiting would not help, or nil. The model's lock is held.
func (m *model) hopeless(hint *Hint) error {
	r, why, until := m.choose(hint)
	if r != nil {
		return nil // behind others
	}
	switch why {
	case lacksOther:
		err := refuse(retrySoon, "every replica of %s has failed this request", m.name)
		err.Exhausted = true
		return err
	case lacksHealth:
		return refuse(max(time.Until(until), retrySoon), "no replica of %s can be reached", m.name)
	case lacksReplica:
		m.knocked = true // the leader may find room for what is asked for, and only then
		if m.row.Cannot != "" {
			return refuse(10*time.Second, "%s has no replica, and none can be started: %s", m.name, m.row.Cannot)
		}
		if m.row.Max == 0 {
			return refuse(10*time.Second, "%s has no replica and may have none (replicas.max is 0)", m.name)
		}
	}
	return nil
}

// serveWaiting hands replicas to those who wait, in their order, and sends away those for whom waiting has
// become useless. The model's lock is held.
func (m *model) serveWaiting() {
	blocked := false // a request without peculiarities must wait, so all behind it must
	m.waiting = slices.DeleteFunc(m.waiting, func(w *waiter) bool {
		if blocked {
			return false
		}
		if m.row == nil {
			w.granted <- grant{err: unknown(m.name)}
			return true
		}
		if r, _, _ := m.choose(w.hint); r != nil {
			w.granted <- grant{lease: m.take(r, w.hint)}
			m.rounds.served = max(m.rounds.served, w.round)
			return true
		}
		if err := m.hopeless(w.hint); err != nil {
			w.granted <- grant{err: err}
			return true
		}
		blocked = len(w.hint.Avoid) == 0
		return false
	})
}

// lookAgain is how often a request that waits looks by itself: a replica's pause may have begun after it began to wait.
const lookAgain = time.Second

// wait waits for a grant.
func (m *model) wait(ctx context.Context, w *waiter) (Lease, error) {
	if w.hint.beat.IsZero() {
		w.hint.beat = w.arrived.Add(w.hint.WaitingAfter)
	}
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case g := <-w.granted:
			return g.lease, g.err
		case <-ctx.Done():
			return m.leave(w, ctx.Err())
		case <-w.hint.Stop:
			return m.leave(w, refuse(retrySoon, "this router is being stopped"))
		case <-timer.C:
		}
		deadline, look := m.look(w)
		now := time.Now()
		if !now.Before(deadline) {
			return m.leave(w, refuse(retrySoon, "no replica of %s was free within %s", m.name, deadline.Sub(w.arrived)))
		}
		if w.hint.Waiting != nil && !now.Before(w.hint.beat) {
			if err := w.hint.Waiting(); err != nil {
				return m.leave(w, err)
			}
			w.hint.beat = now.Add(w.hint.WaitingEvery)
		}
		next := earliest(deadline, look, now.Add(lookAgain))
		if w.hint.Waiting != nil {
			next = earliest(next, w.hint.beat)
		}
		timer.Reset(time.Until(next))
	}
}

// look serves the queue, because a pause may have ended, and returns until when w may wait and when the next pause ends.
func (m *model) look(w *waiter) (deadline, next time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.row == nil {
		return w.arrived.Add(time.Hour), time.Time{} // a grant says so already
	}
	if m.troubled > 0 {
		m.serveWaiting()
		_, _, next = m.choose(w.hint)
	}
	return w.arrived.Add(m.row.Serve.Queue.Timeout.Std()), next
}

// earliest returns the first of the times that are set.
func earliest(first time.Time, more ...time.Time) time.Time {
	for _, t := range more {
		if !t.IsZero() && t.Before(first) {
			first = t
		}
	}
	return first
}

// leave takes the waiter out of the queue. If it was granted a replica at the same moment, that is given back.
func (m *model) leave(w *waiter, why error) (Lease, error) {
	m.mu.Lock()
	n := len(m.waiting)
	m.waiting = slices.DeleteFunc(m.waiting, func(x *waiter) bool { return x == w })
	granted := len(m.waiting) == n
	m.mu.Unlock()
	if granted {
		if g := <-w.granted; g.err == nil {
			g.lease.Release(Nothing)
		}
	}
	return Lease{}, why
}
