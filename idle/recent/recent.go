// Package recent is a map that knows in which order its entries were last set, so that what has changed since some moment is found without
// going through the rest. It must know nothing of what it holds.
package recent

import "iter"

// Map is for one goroutine at a time. Its zero value is an empty map.
type Map[V any] struct {
	version        uint64
	rows           map[string]*Entry[V]
	oldest, newest *Entry[V] // by the time of the last change
}

// Entry is one of a map, and stays the same one until it is deleted.
type Entry[V any] struct {
	Value V

	key           string
	changed       uint64 // the map's version that this change made
	before, after *Entry[V]
}

// Len is the number of entries.
func (m *Map[V]) Len() int { return len(m.rows) }

// Get gives an entry, or the zero value of what has none.
func (m *Map[V]) Get(key string) (V, bool) {
	r, ok := m.rows[key]
	if !ok {
		var none V
		return none, false
	}
	return r.Value, true
}

// Put sets an entry, which makes it the newest change.
func (m *Map[V]) Put(key string, value V) {
	r := m.Entry(key)
	if r == nil {
		if m.rows == nil {
			m.rows = make(map[string]*Entry[V])
		}
		r = &Entry[V]{key: key}
		m.rows[key] = r
		m.append(r)
	}
	r.Value = value
	m.Touch(r)
}

// Entry gives the entry of a key, or nil.
func (m *Map[V]) Entry(key string) *Entry[V] { return m.rows[key] }

// Touch makes an entry of this map, whose Value has been changed in place, the newest change.
func (m *Map[V]) Touch(r *Entry[V]) {
	m.unlink(r)
	m.version++
	r.changed = m.version
	m.append(r)
}

// Delete drops an entry; whoever asks what has changed is not told of it.
func (m *Map[V]) Delete(key string) {
	if r, ok := m.rows[key]; ok {
		m.unlink(r)
		delete(m.rows, key)
	}
}

// All goes through the entries in no order. The map may be changed meanwhile, as any map of Go.
func (m *Map[V]) All() iter.Seq2[string, V] {
	return func(yield func(string, V) bool) {
		for key, r := range m.rows {
			if !yield(key, r.Value) {
				return
			}
		}
	}
}

// Since goes through at most so many of the entries that were set after a version, the oldest change first, and gives the version up to which
// that is all. Version 0 is before every change.
func (m *Map[V]) Since(version uint64, most int) (iter.Seq2[string, V], uint64) {
	n, first := 0, m.newest
	for r := m.newest; r != nil && r.changed > version; r = r.before {
		n, first = n+1, r
	}
	if n == 0 {
		return func(func(string, V) bool) {}, m.version
	}
	last := m.newest
	if n > most {
		last = first
		for range most - 1 {
			last = last.after
		}
	}
	upTo := m.version
	if last != m.newest {
		upTo = last.changed
	}
	return func(yield func(string, V) bool) {
		for r := first; yield(r.key, r.Value) && r != last; r = r.after {
		}
	}, upTo
}

func (m *Map[V]) append(r *Entry[V]) {
	r.before, r.after = m.newest, nil
	if m.newest != nil {
		m.newest.after = r
	} else {
		m.oldest = r
	}
	m.newest = r
}

func (m *Map[V]) unlink(r *Entry[V]) {
	if r.before != nil {
		r.before.after = r.after
	} else {
		m.oldest = r.after
	}
	if r.after != nil {
		r.after.before = r.before
	} else {
		m.newest = r.before
	}
}
