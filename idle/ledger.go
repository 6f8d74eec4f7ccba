package idle

import (
	"math"
	"sync"
	"time"

	"berth/fleet/wire"
	"berth/idle/recent"
)

// Tick is how often routers report and followers relay heartbeats.
const Tick = time.Second

// Interval is H, the time between two heartbeats of an agent in a fleet of so many nodes: 1 s up to 1,000 nodes, then a
// second for each thousand, so that the leader merges at most a thousand a second.
func Interval(nodes int) time.Duration {
	return max(time.Second, time.Duration(nodes)*time.Second/1000)
}

// never is the moment of what no witness has told. It is before every moment that an age can express, so taking the
// newest of several needs no case for it; it is never subtracted from anything.
const never = time.Duration(math.MinInt64)

// Ledger is what the leader of one term knows of use. A new term begins with an empty one and knows it all again as
// soon as the witnesses have spoken. It may be used by several goroutines at once.
type Ledger struct {
	leader string
	term   uint64

	mu       sync.Mutex
	fresh    time.Duration       // oldest as_of that still counts
	replicas recent.Map[replica] // the newest change is the newest word of a door
	routers  map[string]*router
}

// replica is what is known of one.
type replica struct {
	// told is the newest use that a router, or the door of an earlier shim, has told. It only ever rises: over
	// witnesses the newest use wins, whoever speaks last.
	told time.Duration
	door door
}

// New gives the empty ledger of a leader's term.
func New(leader string, term uint64) *Ledger {
	l := &Ledger{
		leader:  leader,
		term:    term,
		routers: make(map[string]*router),
	}
	l.SetInterval(Interval(0))
	return l
}

// SetInterval tells the ledger H, the interval that agents are told (see Interval). A stamp takes at most a tick to reach a
// follower, H to be used by an agent, a tick to come back, and stands for H until the next one: 2 H + 2 ticks, and one
// more for the network.
// (DESIGN §8, rule 7.)
func (l *Ledger) SetInterval(h time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.fresh = Fresh(h)
}

// Fresh is the age up to which a door's word is proof, where agents send a heartbeat every h.
func Fresh(h time.Duration) time.Duration { return 2*h + 3*Tick }

// Stamp is the leader's word for "now", handed out with every answer to a heartbeat. A reading that returns it was taken
// later.
func (l *Ledger) Stamp(now time.Duration) wire.Stamp {
	return wire.Stamp{Leader: l.leader, Term: l.term, Clock: int64(now)}
}

// Forget drops what is known of a replica whose row is gone. Ids of replicas are never used again.
func (l *Ledger) Forget(id string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.replicas.Delete(id)
}

// Len is how many replicas have an entry.
func (l *Ledger) Len() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.replicas.Len()
}

// Retain drops every replica that the caller does not know and gives their number. A router that was asked for all it has
// may name replicas long gone; without this they would stay for the rest of the term.
func (l *Ledger) Retain(exists func(id string) bool) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	before := l.replicas.Len()
	for id := range l.replicas.All() {
		if !exists(id) {
			l.replicas.Delete(id)
		}
	}
	return before - l.replicas.Len()
}

// replica finds or makes the record of one.
func (l *Ledger) replica(id string) *recent.Entry[replica] {
	if e := l.replicas.Entry(id); e != nil {
		return e
	}
	l.replicas.Put(id, replica{told: never, door: door{use: never, ready: never, asOf: never}})
	return l.replicas.Entry(id)
}
