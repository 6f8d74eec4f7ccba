package main

import (
	"math/rand/v2"
	"time"
)

const (
	step     = time.Second
	service  = 2 * time.Second // of one request
	patience = 2 * time.Minute // serve.queue.timeout
	ending   = 3 * time.Second // from the door's shutting to the cards' being empty
)

// state of a replica.
type state int

const (
	loading state = iota
	ready
	draining
)

// replica is one loaded model; nil in sim.of: the model is at zero.
type replica struct {
	number     int
	state      state
	since      time.Duration // of the state
	used       time.Duration // end of the last use
	busy       []time.Duration
	admissions uint64
}

// sim is the world that both policies decide in: requests, loads and drains, a second at a time.
type sim struct {
	Workload
	rng     *rand.Rand
	now     time.Duration
	next    time.Duration // arrival of the next request
	of      []*replica    // by model
	waiting [][]time.Duration
	cannot  []bool // requests for the model are refused at once

	loads, requests, refused int
	waits                    []time.Duration
}

// decider loads and evicts.
type decider interface{ decide() }

func newSim(w Workload) *sim {
	return &sim{
		Workload: w, rng: rand.New(rand.NewPCG(w.Seed, 1)),
		of: make([]*replica, w.Models), waiting: make([][]time.Duration, w.Models), cannot: make([]bool, w.Models),
	}
}

// tick lets a second pass: loads and drains end, requests arrive, are served, or give up.
func (s *sim) tick() {
	s.now += step
	for m, r := range s.of {
		if r == nil {
			continue
		}
		if r.state == loading && s.now-r.since >= s.Load {
			r.state, r.since = ready, s.now
		}
		if r.state == draining && s.now-r.since >= ending {
			s.of[m] = nil
		}
		for len(r.busy) > 0 && r.busy[0] <= s.now {
			r.used, r.busy = r.busy[0], r.busy[1:]
		}
	}
	for s.next <= s.now {
		s.arrive(s.rng.IntN(s.Models))
		s.next += time.Duration(s.rng.ExpFloat64() * float64(s.Every))
	}
	for m := range s.waiting {
		s.serve(m)
	}
}

func (s *sim) arrive(m int) {
	s.requests++
	s.waiting[m] = append(s.waiting[m], s.now)
}

// serve hands what waits to a ready replica, and sends away who has waited too long or in vain.
func (s *sim) serve(m int) {
	r := s.of[m]
	if r != nil && r.state == ready {
		for _, since := range s.waiting[m] {
			s.waits = append(s.waits, s.now-since)
			r.admissions++
			r.used = s.now
			r.busy = append(r.busy, s.now+service)
		}
		s.waiting[m] = nil
		return
	}
	for len(s.waiting[m]) > 0 && (s.now-s.waiting[m][0] >= patience || s.cannot[m] && r == nil) {
		s.waiting[m] = s.waiting[m][1:]
		s.refused++
	}
}

// load starts a replica.
func (s *sim) load(m int) {
	s.loads++
	s.of[m] = &replica{number: s.loads, state: loading, since: s.now}
}

func (s *sim) drain(m int) { s.of[m].state, s.of[m].since = draining, s.now }

func (s *sim) loaded() int {
	n := 0
	for _, r := range s.of {
		if r != nil {
			n++
		}
	}
	return n
}

// lru evicts the least recently used model on each miss.
type lru struct{ *sim }

func (l *lru) decide() {
	for m := range l.of {
		if l.of[m] != nil || len(l.waiting[m]) == 0 {
			continue
		}
		if l.loaded() < l.Room {
			l.load(m)
			continue
		}
		l.evict()
	}
}

// evict drains the least recently used replica that serves nothing now, unless a drain is on its way.
func (l *lru) evict() {
	victim := -1
	for m, r := range l.of {
		switch {
		case r == nil || r.state == loading || len(r.busy) > 0:
		case r.state == draining:
			return
		case victim < 0 || r.used < l.of[victim].used:
			victim = m
		}
	}
	if victim >= 0 {
		l.drain(victim)
	}
}
