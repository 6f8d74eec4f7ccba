package scheduler

import (
	"container/heap"

	"berth/scheduler/capacity"
)

// ranking keeps the hosts that would take a shard in the order of their cost. It is brought up to date from the map's log of changes, so that one more
// decision costs what has changed since the last, not what the fleet is.
type ranking struct {
	f       *finder
	classes []string // all as dear
	heap    ranked
	at      int // of the map's log; -1: never built
}

// place is where a shard would go, and what that costs.
type place struct {
	host    *capacity.Host
	version uint32 // of the host, when the cost was worked out
	class   string
	card    int // of a share
	cost    cost
}

// ranked is a heap; entries whose host has changed since are passed over when they come to the top.
type ranked []place

func (r ranked) Len() int { return len(r) }
func (r ranked) Less(i, j int) bool {
	a, b := &r[i], &r[j]
	if c := a.cost.compare(&b.cost); c != 0 {
		return c < 0
	}
	return a.host.Index < b.host.Index
}
func (r ranked) Swap(i, j int) { r[i], r[j] = r[j], r[i] }
func (r *ranked) Push(x any)   { *r = append(*r, x.(place)) }
func (r *ranked) Pop() any {
	last := len(*r) - 1
	x := (*r)[last]
	*r = (*r)[:last]
	return x
}

// best returns the cheapest place, or false.
func (r *ranking) best() (place, bool) {
	r.update()
	for len(r.heap) > 0 {
		if top := r.heap[0]; top.version == top.host.Version {
			return top, true
		}
		heap.Pop(&r.heap)
	}
	return place{}, false
}

func (r *ranking) update() {
	m := r.f.cards
	changed, known := m.Since(r.at)
	switch {
	case r.at < 0 || !known || len(r.heap) > 2*len(r.f.hosts)+64 || len(changed) > len(r.f.hosts):
		r.build()
	default:
		for _, i := range changed {
			h := m.Hosts[i]
			if !r.f.admitted[i] {
				continue
			}
			if p, ok := r.f.price(h, r.classes); ok {
				heap.Push(&r.heap, p)
			}
		}
	}
	r.at = m.Now()
}

func (r *ranking) build() {
	r.heap = r.heap[:0]
	for _, h := range r.f.hosts {
		if p, ok := r.f.price(h, r.classes); ok {
			r.heap = append(r.heap, p)
		}
	}
	heap.Init(&r.heap)
}
