package board

import (
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"berth/fleet"
	"berth/fleet/wire"
	"berth/fsm"
	"berth/idle"
	"berth/idle/recent"
)

// Term is what the leader of one term has observed. Its duties read it, and it begins empty: nothing that another leader heard counts.
type Term struct {
	// Ledger is who uses which replica. It has its own lock.
	Ledger *idle.Ledger

	peer  string
	state func() *fsm.State
	log   *slog.Logger
	term  uint64
	began time.Duration
	wake  chan struct{}
	// refused rings when other models than before are refused.
	refused *bell

	mu         sync.Mutex
	nodes      recent.Map[heardNode] // by name
	peers      map[string]heardPeer  // by id; followers only
	own        heardPeer             // this peer's word about itself
	refusals   map[string]refusal    // by model
	discovered []wire.NodeView
	attention  map[string][]string // by duty
	silent     silence
}

// heardNode is the newest heartbeat of a node's registered instance.
type heardNode struct {
	instance, seq uint64
	at            time.Duration // when a peer had it
}

// silence is who was silent at a look. It goes through all nodes, so it is good for half a tick.
type silence struct {
	at     time.Duration
	agents []string
}

// heardPeer is the newest word of a follower.
type heardPeer struct {
	at    time.Duration
	alive map[string]uint64 // gossip members that it sees alive: node → instance
	said  wire.Relay        // without what is above and its heartbeats
}

type refusal struct {
	fleet.Refusal
	since time.Duration
}

func newTerm(b *Board, term uint64) *Term {
	return &Term{
		Ledger: idle.New(b.Peer, term), peer: b.Peer, state: b.State, log: b.Log, term: term, began: b.Clock(), wake: make(chan struct{}, 1), refused: &b.refused,
		peers: make(map[string]heardPeer), refusals: make(map[string]refusal),
		attention: make(map[string][]string),
	}
}

// Number is the term's.
func (t *Term) Number() uint64 { return t.term }

// Demanded gives one value after requests have come to wait for a model somewhere. The planner waits on it.
func (t *Term) Demanded() <-chan struct{} { return t.wake }

// hear merges a heartbeat of a node's registered instance. How long a follower held it counts for liveness alone: in the ledger every age counts
// from here, and what a reading proves is said by the stamp that it returns.
func (t *Term) hear(now time.Duration, h wire.Heartbeat, heldFor time.Duration) {
	t.logProblems(t.Ledger.Heartbeat(now, h))
	t.mu.Lock()
	defer t.mu.Unlock()
	old, ok := t.nodes.Get(h.Node)
	at := now - heldFor
	if ok && old.instance == h.Instance {
		if h.Seq <= old.seq {
			return
		}
		at = max(at, old.at)
	}
	t.nodes.Put(h.Node, heardNode{instance: h.Instance, seq: h.Seq, at: at})
}

// answers says whether the registered life of a node must still be there; not sure while this term could not have heard it yet.
func (t *Term) answers(now time.Duration, node string) (alive, sure bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	state := t.state()
	limit := 3 * idle.Interval(state.NodeCount())
	n, known := state.Node(node)
	if !known {
		return false, true
	}
	if h, ok := t.nodes.Get(node); ok && h.instance == n.Instance && now-h.at <= limit {
		return true, true
	}
	return false, now-t.began > limit
}

func (t *Term) hearPeer(now time.Duration, r wire.Relay) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.peers[r.Peer] = heardPeer{at: now, alive: r.Alive, said: wire.Relay{Warnings: r.Warnings, Backup: r.Backup}}
}

// Own takes what the leading peer says of itself, as the others do with each relay.
func (t *Term) Own(now time.Duration, warnings []string, backup *wire.Backup) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.own = heardPeer{at: now, said: wire.Relay{Warnings: warnings, Backup: backup}}
}

// peersFor is how long the word of a peer about itself counts.
const peersFor = 30 * time.Second

// Warnings are what the peers want a person to see about themselves, each with its name.
func (t *Term) Warnings(now time.Duration) []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	var out []string
	words := t.words()
	for _, id := range slices.Sorted(maps.Keys(words)) {
		if p := words[id]; now-p.at < peersFor {
			for _, w := range p.said.Warnings {
				out = append(out, fmt.Sprintf("peer %s: %s", id, w))
			}
		}
	}
	return out
}

// backup is the newest one of all peers, heard lately or not: a peer that is gone may have left it elsewhere.
func (t *Term) backup(now time.Duration) *wire.Backup {
	var newest *wire.Backup
	for _, p := range t.words() {
		if p.said.Backup == nil {
			continue
		}
		b := *p.said.Backup
		if b.AgeSeconds += (now - p.at).Seconds(); newest == nil || b.AgeSeconds < newest.AgeSeconds {
			newest = &b
		}
	}
	return newest
}

// words are those of the followers and the leader's own.
func (t *Term) words() map[string]heardPeer {
	all := maps.Clone(t.peers)
	all[t.peer] = t.own
	return all
}

func (t *Term) report(now time.Duration, r wire.Report) wire.ReportAnswer {
	wants := len(r.Demand) > 0
	answer, problems := t.Ledger.Report(now, r)
	t.logProblems(problems)
	if wants {
		t.Wake()
	}
	return answer
}

// Wake makes Demanded give a value.
func (t *Term) Wake() {
	select {
	case t.wake <- struct{}{}:
	default:
	}
}

func (t *Term) logProblems(list []idle.Problem) {
	for _, p := range list {
		t.log.Warn("a witness of use sent what cannot be", "what", p.String())
	}
}

// SetRefusals replaces what the planner refuses. A refusal that stands keeps the time since when it has stood.
func (t *Term) SetRefusals(now time.Duration, list []fleet.Refusal) {
	if t.replaceRefusals(now, list) {
		t.refused.ring()
	}
}

// replaceRefusals says whether other models are refused than before.
func (t *Term) replaceRefusals(now time.Duration, list []fleet.Refusal) (others bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	next := make(map[string]refusal, len(list))
	for _, r := range list {
		since := now
		if old, ok := t.refusals[r.Model]; ok {
			since = old.since
		} else {
			others = true
		}
		next[r.Model] = refusal{r, since}
	}
	others = others || len(next) != len(t.refusals)
	t.refusals = next
	return others
}

// SetDiscovered replaces the machines that only gossip knows.
func (t *Term) SetDiscovered(list []wire.NodeView) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.discovered = list
}

// SetAttention replaces what one duty wants a person to see.
func (t *Term) SetAttention(duty string, lines ...string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.attention[duty] = lines
}

// Tidy sets H for so many nodes and forgets what is no longer in the state.
func (t *Term) Tidy() {
	state := t.state()
	t.Ledger.SetInterval(idle.Interval(state.NodeCount()))
	// Where no more rows are held than there are, looking for those that are gone would cost more each second than it could free.
	if t.Ledger.Len() > state.ReplicaCount() {
		t.Ledger.Retain(func(id string) bool {
			_, ok := state.Replica(id)
			return ok
		})
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.nodes.Len() > state.NodeCount() {
		for name := range t.nodes.All() {
			if _, ok := state.Node(name); !ok {
				t.nodes.Delete(name)
			}
		}
	}
	for id := range t.peers {
		if _, ok := state.Server(id); !ok {
			delete(t.peers, id)
		}
	}
}
