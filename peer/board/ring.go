package board

import (
	"sync"

	"berth/fleet/wire"
)

// eventsKept is how many events a peer remembers.
const eventsKept = 10_000

// ring keeps the newest events and wakes those who wait for more.
type ring struct {
	mu     sync.Mutex
	events []wire.Event // a circle once it is full
	next   uint64       // sequence number of the next event; they begin at 1
	more   chan struct{}
}

func newRing(size int) *ring {
	return &ring{events: make([]wire.Event, 0, size), next: 1, more: make(chan struct{})}
}

func (r *ring) add(e wire.Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	e.Seq = r.next
	if len(r.events) < cap(r.events) {
		r.events = append(r.events, e)
	} else {
		r.events[(e.Seq-1)%uint64(cap(r.events))] = e
	}
	r.next++
	close(r.more)
	r.more = make(chan struct{})
}

func (r *ring) since(seq uint64) ([]wire.Event, <-chan struct{}) {
	r.mu.Lock()
	defer r.mu.Unlock()
	first := max(seq+1, r.next-uint64(len(r.events)))
	var out []wire.Event
	for s := first; s < r.next; s++ {
		out = append(out, r.events[(s-1)%uint64(cap(r.events))])
	}
	return out, r.more
}
