package pool

import (
	"slices"
	"time"

	"berth/fleet/wire"
)

// Uses returns what was used at or after a moment of the pool's clock, and all that is in flight; with all, everything
// that was ever used. What was never used has no entry. now is a moment before the first look: a use that is not in
// this answer is at or after it.
// A replica that this process has not served has no entry; there is no zero that could stand for it (DESIGN §8, rule 2).
func (p *Pool) Uses(after time.Duration, all bool) (now time.Duration, uses map[string]wire.Use) {
	p.clock.look()
	now, uses = p.clock.now(), make(map[string]wire.Use)
	for _, m := range p.all() {
		m.mu.Lock()
		for r := range m.everything() {
			if r.inFlight > 0 || r.used.known && (all || r.used.at >= after) {
				uses[r.Replica] = wire.Use{Age: p.age(r).Seconds(), InFlight: r.inFlight}
			}
		}
		m.mu.Unlock()
	}
	return now, uses
}

// age is how long the replica has not been used; what is in flight is used now.
func (p *Pool) age(r *replica) time.Duration {
	if r.inFlight > 0 {
		return 0
	}
	return p.clock.age(r.used.at)
}

// Forget drops replicas that have left the table, have nothing in flight, and whose last use is before a moment of the
// pool's clock: it has been reported.
func (p *Pool) Forget(before time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for name, m := range p.known {
		m.mu.Lock()
		m.gone = slices.DeleteFunc(m.gone, func(r *replica) bool { return r.inFlight == 0 && r.used.at < before })
		empty := m.row == nil && len(m.gone) == 0
		m.mu.Unlock()
		if empty {
			delete(p.known, name)
		}
	}
}

// Demand returns, for each model without a ready replica, how many requests wait for it and how long the first has.
func (p *Pool) Demand() map[string]wire.Demand {
	demand := make(map[string]wire.Demand)
	for _, m := range p.all() {
		m.mu.Lock()
		if m.row != nil && !m.hasReady() && (len(m.waiting) > 0 || m.knocked) {
			demand[m.name] = m.demand()
		}
		m.knocked = false
		m.mu.Unlock()
	}
	return demand
}

func (m *model) demand() wire.Demand {
	d := wire.Demand{Waiting: max(len(m.waiting), 1)}
	for _, w := range m.waiting {
		d.Oldest = max(d.Oldest, time.Since(w.arrived).Seconds())
	}
	return d
}

// IdleFor returns how long ago this process last used a replica, 0 while a request is in flight. It does not know what
// it has not served.
func (p *Pool) IdleFor(replica string) (time.Duration, bool) {
	for _, m := range p.all() {
		m.mu.Lock()
		for r := range m.everything() {
			if r.Replica == replica && r.used.known {
				defer m.mu.Unlock()
				return p.age(r), true
			}
		}
		m.mu.Unlock()
	}
	return 0, false
}

// Load is what one model has now.
type Load struct {
	Model             string
	InFlight, Waiting int
	Ready, SetAside   int // replicas in the table: usable, and set aside because they failed
}

// Loads returns the load of each model, in no order.
func (p *Pool) Loads() []Load {
	var loads []Load
	for _, m := range p.all() {
		m.mu.Lock()
		l := Load{Model: m.name, Waiting: len(m.waiting)}
		for r := range m.everything() {
			l.InFlight += r.inFlight
		}
		for _, r := range m.replicas {
			if r.trouble.open() || r.trouble.wrongKey {
				l.SetAside++
			} else {
				l.Ready++
			}
		}
		m.mu.Unlock()
		loads = append(loads, l)
	}
	return loads
}

// all returns every model that the pool knows.
func (p *Pool) all() []*model {
	p.mu.Lock()
	defer p.mu.Unlock()
	out := make([]*model, 0, len(p.known))
	for _, m := range p.known {
		out = append(out, m)
	}
	return out
}

// everything ranges over the replicas in the table and those that left it. The model's lock is held.
func (m *model) everything() func(yield func(*replica) bool) {
	return func(yield func(*replica) bool) {
		for _, list := range [][]*replica{m.replicas, m.gone} {
			for _, r := range list {
				if !yield(r) {
					return
				}
			}
		}
	}
}
