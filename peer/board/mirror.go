package board

import (
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"berth/fleet"
	"berth/fleet/wire"
	"berth/fsm"
	"berth/idle"
)

// mirror is what a follower knows of the rows that the leader observes: each as it was when the leader told of it. It has a lock of its own, so
// that agents do not wait for whoever goes through it.
type mirror struct {
	state func() *fsm.State

	mu    sync.Mutex
	have  wire.Have
	idle  map[string]told          // by replica
	nodes map[string]time.Duration // by node: when its newest heartbeat came, on this peer's clock
}

// told is a row and the moment, on this peer's clock, before which the leader did not say it. A later word on a replica replaces all of its row, so
// ages of two moments are never mixed.
type told struct {
	wire.IdleView
	at time.Duration
}

// heard is what this follower says to have.
func (m *mirror) heard() wire.Have {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.have
}

// take adds the leader's news.
func (m *mirror) take(at time.Duration, a wire.RelayAnswer) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.have.Term != a.Have.Term || m.idle == nil {
		m.idle, m.nodes = make(map[string]told), make(map[string]time.Duration)
	}
	m.have = a.Have
	for _, row := range a.Observed.Idle {
		m.idle[row.ID] = told{row, at}
	}
	for name, age := range a.Observed.Nodes {
		m.nodes[name] = at - seconds(age)
	}
	m.forget()
}

// forget drops what is no longer in the state. Where no more is held than there is, looking for it would cost more than it could free.
func (m *mirror) forget() {
	state := m.state()
	if len(m.idle) > state.ReplicaCount() {
		maps.DeleteFunc(m.idle, func(id string, _ told) bool { _, ok := state.Replica(id); return !ok })
	}
	if len(m.nodes) > state.NodeCount() {
		maps.DeleteFunc(m.nodes, func(name string, _ time.Duration) bool { _, ok := state.Node(name); return !ok })
	}
}

// clear forgets everything: who leads is about to observe by itself.
func (m *mirror) clear() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.have, m.idle, m.nodes = wire.Have{}, nil, nil
}

// rows gives the leader's rows as they were at the moment of its last word, in order of replica: those that were quiet for at least so long, or all.
func (m *mirror) rows(at, fresh, atLeast time.Duration, all bool) []wire.IdleView {
	m.mu.Lock()
	defer m.mu.Unlock()
	var out []wire.IdleView
	state := m.state()
	for id, t := range m.idle {
		if !all && t.QuietSeconds < atLeast.Seconds() {
			continue
		}
		row := t.asOf(at, fresh)
		r, ok := state.Replica(id)
		if !ok || !witnessed(r) || !all && row.QuietSeconds < 0 {
			continue
		}
		out = append(out, complete(r, row))
	}
	slices.SortFunc(out, func(a, b wire.IdleView) int { return strings.Compare(a.ID, b.ID) })
	return out
}

// asOf is the row at a later moment, as the leader would give it if nothing had been heard of the replica since.
func (t told) asOf(at, fresh time.Duration) wire.IdleView {
	row, held := t.IdleView, max(0, at-t.at).Seconds()
	if row.IdleSeconds >= 0 {
		row.IdleSeconds += held
	}
	if row.QuietSeconds < 0 {
		return row
	}
	if row.AsOfSeconds += held; row.AsOfSeconds > fresh.Seconds() {
		row.Why = idle.TooOld(time.Duration(row.AsOfSeconds*float64(time.Second)), fresh)
		row.QuietSeconds, row.AsOfSeconds = unknown, unknown
	}
	return row
}

// heartbeats gives the ages of the nodes' newest heartbeats at a moment.
func (m *mirror) heartbeats(at time.Duration) map[string]float64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	out := make(map[string]float64, len(m.nodes))
	for name, heard := range m.nodes {
		out[name] = max(0, at-heard).Seconds()
	}
	return out
}

// freshFor is the age up to which a door's word is proof, where agents were told this interval.
func freshFor(interval fleet.Duration) time.Duration {
	return idle.Fresh(max(interval.Std(), idle.Tick))
}
