package idle_test

import (
	"fmt"
	"math"
	"time"

	"berth/fleet/wire"
)

const beat = time.Second // H

// node is a machine with an agent and its shims, which outlive the agent.
type node struct {
	w      *world
	name   string
	clock  clock
	shimNo uint64 // counter on disk
	shims  []*shim
	stamp  *wire.Stamp // newest that the agent has; lost with it
	silent bool        // the agent is down, hung or cut off
	suspension
	counter uint64
}

// shim owns an engine and is its door.
type shim struct {
	n          *node
	replica    string
	truth      *truth
	dead       bool
	hung       bool
	number     uint64
	engine     uint64
	readings   uint64
	admissions uint64
	up         bool
	readyAt    time.Duration // on the node's clock, as is lastUse
	used       bool
	lastUse    time.Duration
	flight     map[int]func()
	next       int
	rate       time.Duration // mean time between requests
}

func newNode(w *world, i int) *node {
	n := &node{w: w, name: fmt.Sprintf("gpu-%03d", i), clock: w.newClock()}
	w.every(beat, n.beat)
	return n
}

// place makes a new replica on some node, under an id never used before.
func (w *world) place() {
	n := pick(w, w.nodes)
	w.placed++
	n.newShim(fmt.Sprintf("r-1.%d.1", w.placed))
}

func (n *node) newShim(replica string) {
	n.shimNo++
	s := &shim{n: n, replica: replica, truth: n.w.oracle.of(replica), number: n.shimNo, flight: map[int]func(){}}
	s.rate = pick(n.w, []time.Duration{300 * time.Millisecond, 5 * time.Second, time.Minute, 20 * time.Minute, math.MaxInt64})
	n.shims = append(n.shims, s)
	s.start()
}

func (s *shim) start() {
	s.engine++
	engine := s.engine
	s.n.w.after(s.n.w.upTo(5*time.Second), func() {
		s.n.run(func() {
			if !s.dead && s.engine == engine {
				s.up, s.readyAt = true, s.clock()
				s.truth.ready(s.n.w.now)
			}
		})
	})
}

func (s *shim) clock() time.Duration { return s.n.clock.at(s.n.w.now) }

// exit ends the engine; every request that it was serving ends at the door.
func (s *shim) exit() {
	if !s.up {
		return
	}
	s.up = false
	for _, release := range s.flight {
		release()
	}
	s.truth.gone(s.n.w.now)
}

// die ends the shim, and with it the engine and the door's memory.
func (s *shim) die() {
	s.exit()
	s.dead = true
	s.n.shims = remove(s.n.shims, s)
}

func remove[T comparable](list []T, gone T) []T {
	var kept []T
	for _, x := range list {
		if x != gone {
			kept = append(kept, x)
		}
	}
	return kept
}

// admit lets a request through to the engine. The function it gives ends it; however it ends, the sender is told.
func (s *shim) admit(ended func()) (release func(), ok bool) {
	if s.dead || !s.up || s.n.suspended {
		return nil, false
	}
	id := s.next
	s.next++
	s.admissions++
	s.used, s.lastUse = true, s.clock()
	end := s.truth.arrive(s.n.w.now)
	release = func() {
		if s.flight[id] != nil {
			delete(s.flight, id)
			s.lastUse = s.clock()
			end(s.n.w.now)
			ended()
		}
	}
	s.flight[id] = release
	return release, true
}

// request lets one client ask for something on this node, through a router or around all of them, and plans the next.
func (n *node) request() {
	w := n.w
	w.after(w.upTo(300*time.Millisecond), n.request)
	for _, s := range n.shims {
		if s.rate == math.MaxInt64 || !w.chance(0.15/s.rate.Seconds()) {
			continue
		}
		lasts := w.upTo(pick(w, []time.Duration{100 * time.Millisecond, 2 * time.Second, time.Minute}))
		if w.chance(0.3) {
			if release, ok := s.admit(func() {}); ok {
				w.bypassed++
				w.after(lasts, func() { n.run(release) })
			}
			continue
		}
		pick(w, w.routers).serve(s, lasts)
	}
}

// beat is one heartbeat: note the newest stamp, then ask the doors, then send. An agent may be held up between any two steps.
func (n *node) beat() {
	if n.silent || n.suspended {
		return
	}
	noted := n.stamp
	n.w.after(n.pause(), func() {
		n.run(func() {
			hb := n.read(noted)
			n.w.after(n.pause(), func() { n.run(func() { n.send(hb) }) })
		})
	})
}

func (n *node) pause() time.Duration {
	if !n.w.gentle && n.w.chance(0.01) {
		n.w.fault("heartbeats held up")
		return n.w.upTo(20 * time.Second)
	}
	return n.w.upTo(2 * time.Millisecond)
}

func (n *node) read(noted *wire.Stamp) wire.Heartbeat {
	n.counter++
	hb := wire.Heartbeat{Node: n.name, Seq: n.counter}
	for _, s := range n.shims {
		if s.hung {
			continue
		}
		s.readings++
		rd := wire.Reading{
			Replica: s.replica, Shim: s.number, Engine: s.engine, Number: s.readings,
			Admissions: s.admissions, InFlight: len(s.flight), Stamp: noted,
		}
		if s.used {
			rd.UseAge = age(s.clock() - s.lastUse)
		}
		if s.up {
			rd.ReadyAge = age(s.clock() - s.readyAt)
		}
		n.spoil(&rd)
		hb.Readings = append(hb.Readings, rd)
	}
	return hb
}

func age(d time.Duration) *float64 {
	s := d.Seconds()
	return &s
}

var wrongAges = []float64{-1, -0.001, math.NaN(), math.Inf(1), math.Inf(-1), 63_900_000_000, -math.MaxFloat64, math.MaxFloat64}

// spoil now and then makes a reading malformed.
func (n *node) spoil(rd *wire.Reading) {
	if n.w.gentle || !n.w.chance(0.005) {
		return
	}
	n.w.fault("readings malformed")
	n.w.oracle.of(rd.Replica).uses = append(n.w.oracle.of(rd.Replica).uses, span{}) // a use may now be seen where there was none
	wrong := pick(n.w, wrongAges)
	switch n.w.rng.IntN(5) {
	case 0:
		rd.UseAge = &wrong
	case 1:
		rd.ReadyAge = &wrong
	case 2:
		rd.InFlight = -1 - n.w.rng.IntN(5)
	case 3:
		rd.Stamp = &wire.Stamp{Leader: n.w.leader.id, Term: n.w.term, Clock: int64(n.w.leader.clock.at(n.w.now + time.Hour))}
	case 4:
		rd.Stamp = &wire.Stamp{Leader: "peer-9", Term: n.w.term, Clock: int64(n.w.leader.clock.at(n.w.now))}
	}
}

// send gives the heartbeat to a peer that answers, and takes the stamp from the answer.
func (n *node) send(hb wire.Heartbeat) {
	if n.silent {
		return
	}
	p := pick(n.w, n.w.peers)
	n.w.post(func() {
		p.process(func() {
			p.heartbeat(hb)
			stamp := p.newest()
			n.w.post(func() {
				n.run(func() {
					if !n.silent {
						n.stamp = newest(n.stamp, stamp)
					}
				})
			})
		})
	})
}

func newest(a, b *wire.Stamp) *wire.Stamp {
	if a == nil || b != nil && (b.Term > a.Term || b.Term == a.Term && b.Clock > a.Clock) {
		return b
	}
	return a
}
