package board

import (
	"slices"
	"time"

	"berth/idle"
)

// Witnesses is what the leader can say of life at one moment: whom it hears, and what those have seen.
type Witnesses struct {
	// Peers are the followers that the leader hears; the leader itself is not among them.
	Peers map[string]bool
	// Heard is the newest heartbeat of each node: instance and the moment, on the leader's clock, when some peer had it.
	Heard map[string]Heard
	// Alive are the gossip members that the leader, or a peer that it hears, sees alive: node → newest instance.
	Alive map[string]uint64
}

// Heard is a sign of life.
type Heard struct {
	Instance uint64
	At       time.Duration
}

// peerHeardFor is how long a follower's word stands: three relays may get lost.
const peerHeardFor = 3 * idle.Tick

// Witnesses joins what the leader sees itself (the gossip members that it sees alive) with what the followers said of late.
func (t *Term) Witnesses(now time.Duration, own map[string]uint64) Witnesses {
	t.mu.Lock()
	defer t.mu.Unlock()
	w := Witnesses{Peers: make(map[string]bool), Heard: make(map[string]Heard, t.nodes.Len()), Alive: make(map[string]uint64, len(own))}
	see := func(alive map[string]uint64) {
		for node, instance := range alive {
			w.Alive[node] = max(w.Alive[node], instance)
		}
	}
	see(own)
	for id, p := range t.peers {
		if now-p.at <= peerHeardFor {
			w.Peers[id] = true
			see(p.alive)
		}
	}
	for name, n := range t.nodes.All() {
		w.Heard[name] = Heard{n.instance, n.at}
	}
	return w
}

// PeerHeard is how long ago a follower's relay came; false when none did in this term.
func (t *Term) PeerHeard(now time.Duration, id string) (time.Duration, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	p, ok := t.peers[id]
	return now - p.at, ok
}

// SilentAgents lists the nodes whose agents have not been heard for longer than they are told to be silent.
func (t *Term) SilentAgents(now time.Duration) []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.silentAgents(now)
}

// silentAgents lists the nodes that have not been heard for longer than agents are told to be silent. One that was never heard in this term
// counts from its beginning: a new leader does not call everybody silent. The caller holds the lock.
func (t *Term) silentAgents(now time.Duration) []string {
	if t.silent.agents != nil && now-t.silent.at < idle.Tick/2 {
		return slices.Clone(t.silent.agents)
	}
	state := t.state()
	limit := max(stampFor, 3*idle.Interval(state.NodeCount()))
	silent := []string{}
	for n := range state.Nodes() {
		last := t.began
		if h, ok := t.nodes.Get(n.Name); ok && h.instance == n.Instance {
			last = h.at
		}
		if now-last > limit {
			silent = append(silent, n.Name)
		}
	}
	t.silent = silence{now, silent}
	return slices.Clone(silent)
}
