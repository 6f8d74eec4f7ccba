package pool

import "slices"

// rounds orders those who wait: each client's requests are spread over rounds, one a round, and rounds are served in
// turn. That is start-time fair queueing with requests as the unit (Goyal, Vin and Cheng, SIGCOMM 1996); within a round it
// is first come, first served, and so it is altogether when there is one client.
type rounds struct {
	served uint64            // the newest round that someone was served from
	next   map[string]uint64 // by client: the round of its next request
}

// line puts a waiter into the queue. The model's lock is held.
func (m *model) line(w *waiter) {
	if len(m.waiting) == 0 || m.rounds.next == nil {
		m.rounds.next = make(map[string]uint64)
	}
	w.round = max(m.rounds.served, m.rounds.next[w.hint.Key])
	m.rounds.next[w.hint.Key] = w.round + 1
	at := len(m.waiting)
	for at > 0 && m.waiting[at-1].round > w.round {
		at--
	}
	m.waiting = slices.Insert(m.waiting, at, w)
}

// displace makes room in a full queue for a client by sending away the last request of the client that has most in it,
// if that is at least two more. It returns false if there is none. The model's lock is held.
func (m *model) displace(key string) bool {
	count := make(map[string]int)
	for _, w := range m.waiting {
		count[w.hint.Key]++
	}
	for at := len(m.waiting) - 1; at >= 0; at-- {
		w := m.waiting[at]
		if n := count[w.hint.Key]; n >= count[key]+2 && isMost(n, count) {
			w.granted <- grant{err: m.crowded()}
			m.waiting = slices.Delete(m.waiting, at, at+1)
			m.rounds.next[w.hint.Key] = w.round
			return true
		}
	}
	return false
}

func isMost(n int, count map[string]int) bool {
	for _, other := range count {
		if other > n {
			return false
		}
	}
	return true
}
