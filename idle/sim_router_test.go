package idle_test

import (
	"fmt"
	"maps"
	"time"

	"berth/fleet/wire"
)

// router is a router as the ledger sees one: it remembers uses, and reports what its term's leader has not acknowledged.
type router struct {
	w     *world
	id    string
	boot  uint64
	seq   uint64
	clock clock
	addr  string

	seen   map[string]sight
	flight map[string]int
	cuts   map[int]func() // ends each request in flight, when the router dies
	next   int

	term    uint64 // of the leader that acknowledged
	acked   uint64
	sendAll bool
	suspension
	mute bool // hung, or cut off from the peers while clients still reach it
	gone bool // a copy that was stopped
}

type sight struct {
	at      time.Duration // true time of the newest use
	changed uint64        // first report that can carry it
}

// said is a report with the truth of what it says.
type said struct {
	wire.Report
	truth map[string]time.Duration
}

func newRouter(w *world, i int) *router {
	r := &router{w: w, id: fmt.Sprintf("router-%d", i), boot: 1, clock: w.newClock(), addr: fmt.Sprintf("192.0.2.%d:7380", 10+i)}
	r.forget()
	w.every(time.Second, r.tick)
	return r
}

func (r *router) forget() {
	r.seq, r.term, r.acked, r.sendAll = 0, 0, 0, false
	r.seen, r.flight, r.cuts = map[string]sight{}, map[string]int{}, map[int]func(){}
}

// restart ends every request that went through the router; the new process knows nothing.
func (r *router) restart() {
	r.boot++
	for _, cut := range r.cuts {
		cut()
	}
	r.forget()
}

// clone is a copied machine: one id and one boot, alive twice.
func (r *router) clone() {
	c := *r
	c.addr = "192.0.2.99:7380"
	c.seen, c.flight, c.cuts = maps.Clone(r.seen), map[string]int{}, map[int]func(){}
	c.suspension = suspension{}
	r.w.every(time.Second, c.tick)
	r.w.routers = append(r.w.routers, &c)
	r.w.after(r.w.upTo(2*time.Minute), func() {
		c.restart()
		c.gone = true
		r.w.routers = remove(r.w.routers, &c)
	})
}

// serve sends a client's request to a door and notes the use when it begins and when it ends.
func (r *router) serve(s *shim, lasts time.Duration) {
	if r.suspended {
		return
	}
	boot, id := r.boot, r.next
	release, ok := s.admit(func() {
		if r.boot == boot { // what an earlier process sent, this one knows nothing of
			delete(r.cuts, id)
			r.use(s.replica, -1)
		}
	})
	if !ok {
		return
	}
	r.next++
	r.w.served++
	r.use(s.replica, 1)
	r.cuts[id] = release
	r.w.after(lasts, func() { s.n.run(func() { r.run(release) }) })
}

func (r *router) use(replica string, n int) {
	r.seen[replica] = sight{r.w.now, r.seq + 1}
	if r.flight[replica] += n; r.flight[replica] == 0 {
		delete(r.flight, replica)
	}
}

func (r *router) tick() {
	if r.mute || r.gone || r.suspended {
		return
	}
	m := r.report()
	if !r.w.gentle && r.w.chance(0.01) {
		r.w.fault("reports malformed")
		m = r.spoil(m)
	}
	p := pick(r.w, r.w.peers).follows
	r.w.post(func() {
		p.process(func() {
			answer, ok := p.report(m)
			if ok {
				r.w.post(func() { r.run(func() { r.answer(m, answer) }) })
			}
		})
	})
}

func (r *router) report() said {
	r.seq++
	m := said{
		Report: wire.Report{Router: r.id, Boot: r.boot, Seq: r.seq, Address: r.addr, All: r.sendAll, Uses: map[string]wire.Use{}},
		truth:  map[string]time.Duration{},
	}
	for replica, s := range r.seen {
		n := r.flight[replica]
		if s.changed <= r.acked && n == 0 && !r.sendAll {
			continue
		}
		m.Uses[replica] = wire.Use{Age: (r.clock.at(r.w.now) - r.clock.at(s.at)).Seconds(), InFlight: n}
		m.truth[replica] = s.at
		if n > 0 {
			m.truth[replica] = r.w.now
		}
	}
	return m
}

// spoil adds malformed entries, the way a zero date or a wrong clock would.
func (r *router) spoil(m said) said {
	m.Uses = maps.Clone(m.Uses)
	for _, n := range r.w.nodes {
		for _, s := range n.shims {
			s.truth.uses = append(s.truth.uses, span{}) // a use may now be seen where there was none
			m.Uses[s.replica] = wire.Use{Age: pick(r.w, wrongAges), InFlight: r.w.rng.IntN(3) - 1}
		}
	}
	m.Uses[""] = wire.Use{Age: 1}
	return m
}

func (r *router) answer(m said, a wire.ReportAnswer) {
	if m.Boot != r.boot || a.Term < r.term {
		return
	}
	if a.Term > r.term {
		r.term, r.acked = a.Term, 0
	}
	r.sendAll = a.SendAll
	if a.Ack == m.Seq {
		r.acked = max(r.acked, a.Ack)
	}
}
