// Package ordered owns an immutable map from strings to values, kept in the order of its keys. It must never know what the values are.
//
// A Map is a B+ tree whose nodes are never written to once a Map shows them; an Edit copies the nodes on the way to what it changes, and only
// once however much it changes there. Whoever holds a Map therefore reads one moment for as long as it likes, without a lock. Compared with a
// radix tree it takes a twentieth of the memory a row and can be built from sorted rows without searching, which is what a restore does.
package ordered

import (
	"iter"
	"slices"
	"strings"
)

// full is the greatest number of entries of a node. A change copies one node a level, so it costs as much as a few hundred bytes' copy.
const full = 32

// Map is an immutable map. The zero value is empty and ready to use.
type Map[V any] struct {
	root *node[V]
	size int
}

// Entry is one key with its value.
type Entry[V any] struct {
	Key   string
	Value V
}

// node is a leaf, which has values, or an inner node, which has kids. In an inner node keys[i] is a lower bound of what is under kids[i], and
// above everything under kids[i-1].
type node[V any] struct {
	owner *owner
	keys  []string
	vals  []V
	kids  []*node[V]
}

// owner marks the nodes that one Edit has made itself and may write to. It has a size, so that no two have one address.
type owner struct{ _ byte }

// FromSorted makes a map of entries in ascending order of key. It returns false, and no map, when they are not.
func FromSorted[V any](entries []Entry[V]) (Map[V], bool) {
	return Build(len(entries), func(i int) (string, V) { return entries[i].Key, entries[i].Value })
}

// Build is FromSorted for entries that need not lie in a slice: at is asked for each once, in order.
func Build[V any](size int, at func(i int) (key string, v V)) (Map[V], bool) {
	level := make([]*node[V], 0, size/full+1)
	last := ""
	for i := 0; i < size; i += full {
		n := newLeaf[V](min(full, size-i))
		for j := range n.keys {
			key, v := at(i + j)
			if i+j > 0 && key <= last {
				return Map[V]{}, false
			}
			n.keys[j], n.vals[j], last = key, v, key
		}
		level = append(level, n)
	}
	for len(level) > 1 {
		level = parents(level)
	}
	m := Map[V]{size: size}
	if len(level) == 1 {
		m.root = level[0]
	}
	return m, true
}

func newLeaf[V any](size int) *node[V] {
	return &node[V]{keys: make([]string, size), vals: make([]V, size)}
}

// parents makes the level above a level of nodes.
func parents[V any](level []*node[V]) []*node[V] {
	var up []*node[V]
	for part := range slices.Chunk(level, full) {
		n := &node[V]{kids: slices.Clone(part)}
		for _, k := range part {
			n.keys = append(n.keys, k.keys[0])
		}
		up = append(up, n)
	}
	return up
}

// Len returns the number of entries.
func (m Map[V]) Len() int { return m.size }

// Get returns the value of a key.
func (m Map[V]) Get(key string) (V, bool) {
	if m.root == nil {
		var none V
		return none, false
	}
	return m.root.get(key)
}

// Prefix goes through the entries whose key starts with p, in order of key; all of them when p is empty.
func (m Map[V]) Prefix(p string) iter.Seq2[string, V] {
	return func(yield func(string, V) bool) {
		if m.root != nil {
			m.root.walk(p, yield)
		}
	}
}

func (n *node[V]) get(key string) (V, bool) {
	for n.kids != nil {
		n = n.kids[n.child(key)]
	}
	if i, ok := slices.BinarySearch(n.keys, key); ok {
		return n.vals[i], true
	}
	var none V
	return none, false
}

// child returns the place of the one kid that may hold a key.
func (n *node[V]) child(key string) int {
	i, ok := slices.BinarySearch(n.keys, key)
	if !ok && i > 0 {
		i--
	}
	return i
}

// walk yields what is under the node and starts with p, and says whether what follows the node may start so too.
func (n *node[V]) walk(p string, yield func(string, V) bool) bool {
	if n.kids == nil {
		i, _ := slices.BinarySearch(n.keys, p)
		for ; i < len(n.keys); i++ {
			if !strings.HasPrefix(n.keys[i], p) || !yield(n.keys[i], n.vals[i]) {
				return false
			}
		}
		return true
	}
	for i := n.child(p); i < len(n.kids); i++ {
		if n.keys[i] > p && !strings.HasPrefix(n.keys[i], p) || !n.kids[i].walk(p, yield) {
			return false
		}
	}
	return true
}
