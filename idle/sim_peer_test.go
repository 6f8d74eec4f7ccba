package idle_test

import (
	"fmt"
	"strings"
	"time"

	"berth/fleet/wire"
	"berth/idle"
)

// peer is a control-plane server. Several may believe to be the leader at once; each has the ledger of its own term.
type peer struct {
	w       *world
	id      string
	clock   clock
	follows *peer // whom it takes for the leader

	paused bool
	inbox  []func() // what waits in its buffers

	term   uint64 // of its leadership; 0: it does not believe to lead
	ledger *idle.Ledger
	told   map[string]time.Duration // newest true use that an accepted report told, by replica
	high   map[string][2]uint64     // newest (boot, seq) accepted, by router

	stamp   *wire.Stamp
	stamped time.Duration
	held    map[string]wire.Heartbeat
}

func newPeer(w *world, i int) *peer {
	p := &peer{w: w, id: fmt.Sprintf("peer-%d", i), clock: w.newClock(), held: map[string]wire.Heartbeat{}}
	w.every(time.Second, p.relay)
	return p
}

// process runs a handler now, or when the peer goes on after a pause.
func (p *peer) process(handle func()) {
	if p.paused {
		p.inbox = append(p.inbox, handle)
		return
	}
	handle()
}

func (p *peer) resume() {
	p.paused = false
	p.w.probe(p) // it still believes what it believed
	waiting := p.inbox
	p.inbox = nil
	for _, handle := range waiting {
		handle()
	}
	p.w.probe(p)
}

// elect makes p the leader of a new term. The one before it, and the followers, hear of it a little later.
func (w *world) elect(p *peer) {
	w.term++
	p.term, p.ledger = w.term, idle.New(p.id, w.term)
	p.told, p.high = map[string]time.Duration{}, map[string][2]uint64{}
	p.follows = p
	p.held = map[string]wire.Heartbeat{} // what it held as a follower would be relayed when it is one again, long stale
	w.leader = p
	w.settled = w.now
	for _, other := range w.peers {
		if other.follows == nil {
			other.follows = p
		}
		if other == p {
			continue
		}
		late := 10 * time.Second
		if w.gentle {
			late = 100 * time.Millisecond
		}
		term, delay := w.term, w.upTo(late)
		w.settled = max(w.settled, w.now+delay)
		w.after(delay, func() { other.process(func() { other.depose(term, p) }) })
	}
}

func (p *peer) depose(term uint64, leader *peer) {
	if p.term < term && p.w.term == term {
		p.term, p.ledger, p.follows = 0, nil, leader
	}
}

// newest is the stamp that p hands out.
func (p *peer) newest() *wire.Stamp {
	if p.ledger != nil {
		return p.issue()
	}
	if p.w.now-p.stamped > 5*time.Second {
		return nil
	}
	return p.stamp
}

func (p *peer) issue() *wire.Stamp {
	s := p.ledger.Stamp(p.clock.at(p.w.now))
	p.w.issued[s] = p.w.now
	return &s
}

func (p *peer) heartbeat(hb wire.Heartbeat) {
	if p.ledger != nil {
		p.merge(hb)
		return
	}
	if h, ok := p.held[hb.Node]; !ok || hb.Seq > h.Seq {
		p.held[hb.Node] = hb
	}
}

func (p *peer) merge(hb wire.Heartbeat) {
	p.w.expected(p.ledger.Heartbeat(p.clock.at(p.w.now), hb))
}

// relay passes what a follower holds to whom it takes for the leader.
func (p *peer) relay() {
	if p.paused || p.ledger != nil {
		return
	}
	held, leader := p.held, p.follows
	p.held = map[string]wire.Heartbeat{}
	p.w.post(func() {
		leader.process(func() {
			if leader.ledger == nil {
				return
			}
			for _, hb := range held {
				leader.merge(hb)
			}
			stamp := leader.issue()
			p.w.post(func() { p.stamp, p.stamped = newest(p.stamp, stamp), p.w.now })
		})
	})
}

// report merges a router's report and writes down what it truly said, if it is news by (boot, seq).
func (p *peer) report(m said) (wire.ReportAnswer, bool) {
	if p.ledger == nil {
		return wire.ReportAnswer{}, false
	}
	answer, problems := p.ledger.Report(p.clock.at(p.w.now), m.Report)
	p.w.expected(problems)
	high, heard := p.high[m.Router]
	if !heard || m.Boot > high[0] || m.Boot == high[0] && m.Seq > high[1] {
		p.high[m.Router] = [2]uint64{m.Boot, m.Seq}
		for replica, at := range m.truth {
			p.told[replica] = max(p.told[replica], at)
		}
	}
	return answer, true
}

// expected holds that nothing is called malformed where nothing was made so.
func (w *world) expected(problems []idle.Problem) {
	if w.gentle && len(problems) > 0 && !strings.Contains(problems[0].What, "copy") {
		w.fail("%v", problems)
	}
}

// slack is for the rounding of clocks and ages.
const slack = 2 * time.Microsecond

// probe asks a leader, true or deposed, about every replica and holds the answers to the truth.
func (w *world) probe(p *peer) {
	if p.paused || p.ledger == nil {
		return
	}
	for replica, truth := range w.oracle.replicas {
		v := p.ledger.View(p.clock.at(w.now), replica)
		w.tally.probes++
		w.checkQuiet(p, replica, truth, v)
		w.checkIdle(p, replica, truth, v)
		if w.gentle && p == w.leader {
			w.checkLive(replica, truth, v)
		}
	}
}

// checkQuiet holds the invariant: never quiet for longer than it truly was, as of the answer's as_of.
func (w *world) checkQuiet(p *peer, replica string, truth *truth, v idle.View) {
	if !v.QuietKnown {
		return
	}
	w.tally.known++
	w.tally.longest = max(w.tally.longest, v.Quiet)
	if v.Quiet > time.Minute {
		w.tally.long++
	}
	asOf, ok := w.issued[wire.Stamp{Leader: p.id, Term: p.term, Clock: int64(p.clock.at(w.now) - v.AsOf)}]
	if !ok {
		w.fail("%s: %s is known as of a moment for which %s made no stamp", replica, v.Quiet, p.id)
		return
	}
	if real := truth.quiet(asOf); v.Quiet > real+slack {
		w.fail("%s: quiet for %s said %s as of %s ago; truly %s", replica, v.Quiet, p.id, w.now-asOf, real)
	}
	if v.Markable && v.InFlight != 0 {
		w.fail("%s: a mark with %d requests in flight", replica, v.InFlight)
	}
}

// checkIdle holds what was once told: a use told in this term is never forgotten, and none is invented.
func (w *world) checkIdle(p *peer, replica string, truth *truth, v idle.View) {
	at, told := p.told[replica]
	if v.IdleKnown {
		w.tally.idle++
		if !truth.used() {
			w.fail("%s: used %s ago said %s; it never was", replica, v.Idle, p.id)
		}
	}
	if real := p.clock.at(w.now) - p.clock.at(at); told && (!v.IdleKnown || v.Idle > real+slack) {
		w.fail("%s: a router told of a use %s ago; %s says %s (%v)", replica, real, p.id, v.Idle, v.IdleKnown)
	}
}

// checkLive holds the other half: what is truly quiet becomes known to be, in 1.001 × the window + 2 H + 3 ticks. The window passes on the door's clock,
// which may be slow by 200 parts in a million, and 0.999 of what has passed there is believed: together 1.0012 × the window in the worst case.
func (w *world) checkLive(replica string, truth *truth, v idle.View) {
	const bound = 2*beat + 3*idle.Tick
	real := truth.quiet(w.now)
	if real < bound || w.now-w.settled < bound {
		return
	}
	if window := time.Duration(float64(real-bound) * 0.999 * (1 - 200e-6)); !v.QuietKnown || v.Quiet < window {
		w.fail("%s: truly quiet for %s; the answer is %s (%v, %s)", replica, real, v.Quiet, v.QuietKnown, v.Why)
	}
}
