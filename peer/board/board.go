package board

import (
	"iter"
	"log/slog"
	"sync"
	"time"

	"berth/fleet"
	"berth/fleet/wire"
	"berth/fsm"
	"berth/idle"
)

// Config says what a board is made of.
type Config struct {
	Peer  string            // id of this peer
	State func() *fsm.State // newest agreed state
	// Clock is this machine's time since some start; it goes on while the machine is suspended. The stamps that a leader gives are read from it.
	Clock func() time.Duration
	Log   *slog.Logger
}

// Board is the observed side of one peer. It is safe for concurrent use.
type Board struct {
	Config
	ring    *ring
	refused bell
	mirror  *mirror // of the leader's rows; it has a lock of its own

	mu   sync.Mutex
	held map[life]held // the newest heartbeat of each life of a node that the leader has not had yet
	word word          // what the leader said last
	term *Term         // nil: this peer does not lead
}

type held struct {
	heartbeat wire.Heartbeat
	at        time.Duration
}

// word is the newest answer that a follower had from a leader. The rows of what it observes are in the mirror.
type word struct {
	known    bool
	at       time.Duration
	stamp    wire.Stamp
	interval fleet.Duration
	observed wire.Observed
}

// stampFor is how long a leader's stamp is handed out after it came. A peer that has none newer says so, and the agent moves on.
const stampFor = 5 * time.Second

// New makes a board that has heard nothing.
func New(c Config) *Board {
	return &Board{Config: c, ring: newRing(eventsKept), held: make(map[life]held), mirror: &mirror{state: c.State}}
}

// Heartbeat takes one from an agent and answers at once: it waits for nobody. Without a stamp of a leader of late the answer has none.
func (b *Board) Heartbeat(h wire.Heartbeat) wire.HeartbeatAnswer {
	state, now := b.State(), b.Clock()
	node, known := state.Node(h.Node)
	genuine := known && registered(node, h)
	answer := wire.HeartbeatAnswer{
		Cluster:  state.Cluster().ID,
		Interval: fleet.Duration(idle.Interval(state.NodeCount())),
		Register: !genuine || node.Unreachable,
		PeerHTTP: addresses(state.Servers()),
	}
	if t, _ := b.source(); t != nil {
		if genuine {
			t.hear(now, h, 0) // nobody who asks this board waits for the ledger
		}
		stamp := t.Ledger.Stamp(now)
		answer.Stamp = &stamp
		return answer
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.word.known && now-b.word.at <= stampFor {
		stamp := b.word.stamp
		answer.Stamp, answer.Interval = &stamp, b.word.interval
	}
	// A follower may lag behind the registration, so it keeps what any life of a known node says; the leader looks again.
	if old, ok := b.held[lifeOf(h)]; known && b.term == nil && (!ok || h.Seq > old.heartbeat.Seq) {
		b.held[lifeOf(h)] = held{h, now}
	}
	return answer
}

// registered says whether a heartbeat is of the machine and the life that the state knows. A copied machine, or the life before, is neither a
// sign of life nor a witness of use.
func registered(n *fleet.Node, h wire.Heartbeat) bool {
	return n.ID == h.ID && n.Instance == h.Instance
}

// life is one start of a machine's agent. A copied machine that runs beside its original is another life of the same node, and must not cover it.
type life struct {
	node, id string
	instance uint64
}

func lifeOf(h wire.Heartbeat) life { return life{h.Node, h.ID, h.Instance} }

// Answers says whether the registered life of a node has been heard so lately that it must still be there. sure is false while this peer does not
// lead, and has not led for long enough to have heard it: then nobody can say.
func (b *Board) Answers(node string) (alive, sure bool) {
	t, _ := b.source()
	if t == nil {
		return false, false
	}
	return t.answers(b.Clock(), node)
}

// Report takes a router's report. Only the leader can; elsewhere the error is fleet.NoLeader.
func (b *Board) Report(r wire.Report) (wire.ReportAnswer, error) {
	t, err := b.leading("a router's report")
	if err != nil {
		return wire.ReportAnswer{}, err
	}
	return t.report(b.Clock(), r), nil
}

// Observed is everything that the leader has observed: this peer's own word if it leads, otherwise the newest that the leader passed on. Of a
// peer that never heard a leader it is empty, with AgeSeconds -1. It costs what the fleet is large; see Brief. What routers have used since their
// start only the leader itself knows.
func (b *Board) Observed() wire.Observed {
	t, w := b.source()
	if t != nil {
		return t.observed(b.Clock())
	}
	o := w.brief(b.Clock())
	if w.known {
		o.Idle, o.Nodes = b.mirror.rows(w.at, freshFor(w.interval), 0, true), b.mirror.heartbeats(w.at)
	}
	return o
}

// Brief is Observed without what grows with the fleet: no Nodes, no Uses, and of Idle only what has been quiet for at least so long; none of it
// where that is negative, at next to no cost.
func (b *Board) Brief(quiet time.Duration) wire.Observed {
	t, w := b.source()
	if t != nil {
		now := b.Clock()
		o := t.brief(now)
		if quiet >= 0 {
			o.Idle = t.quiet(now, quiet)
		}
		return o
	}
	o := w.brief(b.Clock())
	if w.known && quiet >= 0 {
		o.Idle = b.mirror.rows(w.at, freshFor(w.interval), quiet, false)
	}
	return o
}

// source is where this peer has it from: its own term, or a leader's word.
func (b *Board) source() (*Term, word) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.term, b.word
}

// brief is the word with its age.
func (w word) brief(now time.Duration) wire.Observed {
	if !w.known {
		return wire.Observed{AgeSeconds: unknown}
	}
	o := w.observed
	o.AgeSeconds = (now - w.at).Seconds()
	return o
}

// ObservedAge is the age of what Observed gives: 0 at the leader, -1 of a peer that never heard one.
func (b *Board) ObservedAge() time.Duration {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case b.term != nil:
		return 0
	case !b.word.known:
		return -1
	}
	return b.Clock() - b.word.at
}

// Events returns the events after that sequence number which are still kept, and a channel that is closed when there are more.
func (b *Board) Events(since uint64) ([]wire.Event, <-chan struct{}) { return b.ring.since(since) }

// Note adds an event to this peer's history; Seq is set here.
func (b *Board) Note(e wire.Event) { b.ring.add(e) }

// Lead begins this peer's term as the leader. The function that it gives ends it.
func (b *Board) Lead(term uint64) (*Term, func()) {
	t := newTerm(b, term)
	b.mu.Lock()
	defer b.mu.Unlock()
	b.term = t
	state, now := b.State(), b.Clock()
	for whose, h := range b.held { // they came before the term, and their age says so
		if node, ok := state.Node(whose.node); ok && registered(node, h.heartbeat) {
			t.hear(now, h.heartbeat, now-h.at)
		}
	}
	clear(b.held)
	b.mirror.clear()
	return t, func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		if b.term == t {
			b.term, b.word = nil, word{}
		}
	}
}

func (b *Board) leading(what string) (*Term, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.term == nil {
		return nil, fleet.Errorf(fleet.NoLeader, "%s is for the leader, and peer %s does not lead", what, b.Peer)
	}
	return b.term, nil
}

func addresses(servers iter.Seq[*fleet.Server]) []string {
	var out []string
	for s := range servers {
		if s.HTTP != "" {
			out = append(out, s.HTTP)
		}
	}
	return out
}
