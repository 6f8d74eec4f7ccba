package pool

import (
	"context"
	"time"
)

// Patience is how long a replica may move nothing at all before it counts as hung.
type Patience struct {
	// Stream is for a replica that has begun to answer a stream: its tokens do not move any more.
	Stream time.Duration
	// First is for one that has begun none, while several wait for their first byte: a single long prompt may take long.
	First time.Duration
	// Cut is how long a replica that was found hung may go on so before the streams that it has begun are given up too. Some
	// engines let all streams stand while they compute one long prompt, so it is longer than Stream.
	Cut time.Duration
}

// leastWaiting is how many streams must wait for their first byte before that alone is evidence.
const leastWaiting = 2

// motion is what is known of whether a replica's tokens move. Health routes say nothing of that: an engine's HTTP side
// goes on answering when its core is stuck.
type motion struct {
	streams, begun int       // streams in flight, and those of them that have had a byte
	seen           uint64    // moves at the newest look
	since          time.Time // of that look, or of the newest one at which there was nothing to move
	still          time.Time // since when nothing has moved, as far as looks tell
}

// life is what requests that wait for a replica's first byte hold on to.
type life struct {
	ctx context.Context
	end context.CancelFunc
}

func newLife() life {
	ctx, end := context.WithCancel(context.Background())
	return life{ctx, end}
}

// Dead gives a context that ends when the replica has been hung for so long that its begun streams are given up.
func (l *Lease) Dead() context.Context { return l.end }

// Hung gives a context that ends when the replica is found hung, so that what waits for its first byte can go elsewhere.
func (l *Lease) Hung() context.Context { return l.life }

// Moved says that bytes of an answer came. It is cheap enough for every chunk.
func (l *Lease) Moved() {
	if l.replica != nil {
		l.replica.moves.Add(1)
	}
}

// Watch looks whether tokens move, once a tick, and sets replicas aside that have moved none for as long as patience
// says. It never sets aside more than half of a model's replicas: when most seem hung, the network or this router is the
// likelier culprit, and someone must serve. It returns those that it set aside.
func (p *Pool) Watch(patience Patience) (hung []string) {
	for _, m := range p.all() {
		m.mu.Lock()
		for _, r := range m.replicas {
			if m.watch(r, patience, time.Now()) {
				hung = append(hung, r.Replica)
			}
		}
		m.countTrouble()
		if len(hung) > 0 && len(m.waiting) > 0 {
			m.serveWaiting()
		}
		m.mu.Unlock()
	}
	return hung
}

// watch looks at one replica. The model's lock is held.
func (m *model) watch(r *replica, patience Patience, now time.Time) bool {
	moves := r.moves.Load()
	if moved := moves != r.motion.seen; moved || r.motion.streams == 0 {
		r.motion.seen, r.motion.since, r.motion.still = moves, now, now
		if moved && r.trouble.hung {
			r.trouble = trouble{wrongKey: r.trouble.wrongKey}
		}
		return false
	}
	if r.trouble.hung && now.Sub(r.motion.still) >= patience.Cut && r.motion.begun > 0 {
		r.end.end()
		r.end = newLife()
	}
	still := now.Sub(r.motion.since)
	switch {
	case r.motion.begun > 0 && still >= patience.Stream:
	case r.motion.streams >= leastWaiting && still >= patience.First:
	default:
		return false
	}
	if !r.trouble.hung && m.wouldPanic(r) {
		return false
	}
	r.motion.since = now // who tries it next has as long again
	again := r.trouble.hung
	r.trouble.hung = true
	r.trouble.setAside(now, again)
	r.life.end()
	r.life = newLife()
	return true
}

// wouldPanic says whether too few replicas would be left without this one.
func (m *model) wouldPanic(without *replica) bool {
	left := 0
	for _, r := range m.replicas {
		if r != without && isPlain(r) && !r.trouble.open() && !r.trouble.wrongKey {
			left++
		}
	}
	return 2*left < len(m.replicas)
}
