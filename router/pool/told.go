package pool

import (
	"time"

	"berth/fleet/wire"
)

// heardFor is how long after its last request a model counts as busy.
const heardFor = 10 * time.Second

// Asked returns the replicas whose engines' own numbers would help to choose: those of models that have several, whose
// policy waits for first tokens, and that had a request lately.
func (p *Pool) Asked() []wire.Endpoint {
	var list []wire.Endpoint
	for _, m := range p.all() {
		m.mu.Lock()
		if (m.policy == ttft{}) && len(m.replicas) > 1 && m.busy() {
			for _, r := range m.replicas {
				if isPlain(r) {
					list = append(list, r.Endpoint)
				}
			}
		}
		m.mu.Unlock()
	}
	return list
}

// busy says whether the model has, or lately had, a request. The lock is held.
func (m *model) busy() bool {
	now := m.pool.clock.now()
	for _, r := range m.replicas {
		if r.inFlight > 0 || r.used.known && now-r.used.at < heardFor {
			return true
		}
	}
	return false
}

// Tell takes what engines tell of themselves, by replica: how many requests wait there until their computing begins,
// whoever sent them. What this router sent is known better from its own books; what others sent is known in no other way.
func (p *Pool) Tell(waiting map[string]int) {
	for _, m := range p.all() {
		m.mu.Lock()
		for _, r := range m.replicas {
			if n, ok := waiting[r.Replica]; ok {
				r.queue.tell(m.pool.clock.now(), n)
			}
		}
		m.mu.Unlock()
	}
}
