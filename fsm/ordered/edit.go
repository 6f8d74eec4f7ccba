package ordered

import (
	"iter"
	"slices"
)

// Edit changes a map. Holders of the map that it began from see nothing of it. It is for one goroutine.
type Edit[V any] struct {
	m     Map[V]
	owner *owner // nil until something is written
}

// Edit begins a change of the map.
func (m Map[V]) Edit() Edit[V] { return Edit[V]{m: m} }

// Map returns the map as changed so far. The edit may go on; what it changes after this is not seen in the map returned.
func (e *Edit[V]) Map() Map[V] {
	e.owner = nil
	return e.m
}

// Get returns the value of a key.
func (e *Edit[V]) Get(key string) (V, bool) { return e.m.Get(key) }

// Prefix is Map.Prefix on the map as changed so far. Nothing may be changed while it is gone through.
func (e *Edit[V]) Prefix(p string) iter.Seq2[string, V] { return e.m.Prefix(p) }

// Put sets the value of a key, and says whether the key is new.
func (e *Edit[V]) Put(key string, v V) bool {
	if e.m.root == nil {
		e.m.root = &node[V]{owner: e.own()}
	}
	root := e.mine(e.m.root)
	added := e.put(root, key, v)
	if right := e.split(root); right != nil {
		root = &node[V]{owner: e.own(), keys: []string{root.keys[0], right.keys[0]}, kids: []*node[V]{root, right}}
	}
	e.m.root = root
	if added {
		e.m.size++
	}
	return added
}

// put changes a node that is the edit's own. It may leave one entry too many in it, which the caller splits off.
func (e *Edit[V]) put(n *node[V], key string, v V) bool {
	if n.kids == nil {
		i, found := slices.BinarySearch(n.keys, key)
		if found {
			n.vals[i] = v
			return false
		}
		n.keys, n.vals = slices.Insert(n.keys, i, key), slices.Insert(n.vals, i, v)
		return true
	}
	i := n.child(key)
	if key < n.keys[i] {
		n.keys[i] = key // only under the first kid
	}
	kid := e.mine(n.kids[i])
	n.kids[i] = kid
	added := e.put(kid, key, v)
	if right := e.split(kid); right != nil {
		n.keys, n.kids = slices.Insert(n.keys, i+1, right.keys[0]), slices.Insert(n.kids, i+1, right)
	}
	return added
}

// split takes the upper half of a node that has become too full, as a node of its own; nil when it has not.
func (e *Edit[V]) split(n *node[V]) *node[V] {
	if len(n.keys) <= full {
		return nil
	}
	half := len(n.keys) / 2
	right := &node[V]{owner: e.own(), keys: slices.Clone(n.keys[half:])}
	if n.kids == nil {
		right.vals = slices.Clone(n.vals[half:])
	} else {
		right.kids = slices.Clone(n.kids[half:])
	}
	n.truncate(half)
	return right
}

// truncate leaves the first entries, and lets go of the others.
func (n *node[V]) truncate(size int) {
	n.keys = slices.Delete(n.keys, size, len(n.keys))
	if n.kids == nil {
		n.vals = slices.Delete(n.vals, size, len(n.vals))
	} else {
		n.kids = slices.Delete(n.kids, size, len(n.kids))
	}
}

// Delete removes a key, and says whether it was there.
func (e *Edit[V]) Delete(key string) bool {
	if _, ok := e.Get(key); !ok {
		return false
	}
	root := e.mine(e.m.root)
	e.del(root, key)
	for len(root.kids) == 1 {
		root = root.kids[0]
	}
	if len(root.keys) == 0 {
		root = nil
	}
	e.m.root = root
	e.m.size--
	return true
}

// del removes a key that is there from under a node that is the edit's own.
func (e *Edit[V]) del(n *node[V], key string) {
	if n.kids == nil {
		i, _ := slices.BinarySearch(n.keys, key)
		n.keys, n.vals = slices.Delete(n.keys, i, i+1), slices.Delete(n.vals, i, i+1)
		return
	}
	i := n.child(key)
	n.kids[i] = e.mine(n.kids[i])
	e.del(n.kids[i], key)
	if len(n.kids[i].keys) < full/4 && len(n.kids) > 1 {
		e.join(n, max(i-1, 0))
	}
}

// join makes one of the kids i and i+1, or evens them out when they are too much for one.
func (e *Edit[V]) join(n *node[V], i int) {
	left, right := e.mine(n.kids[i]), n.kids[i+1]
	left.keys = append(left.keys, right.keys...)
	if left.kids == nil {
		left.vals = append(left.vals, right.vals...)
	} else {
		left.kids = append(left.kids, right.kids...)
	}
	n.kids[i] = left
	if right = e.split(left); right != nil {
		n.keys[i+1], n.kids[i+1] = right.keys[0], right
		return
	}
	n.keys, n.kids = slices.Delete(n.keys, i+1, i+2), slices.Delete(n.kids, i+1, i+2)
}

func (e *Edit[V]) own() *owner {
	if e.owner == nil {
		e.owner = new(owner)
	}
	return e.owner
}

// mine returns the node if this edit has made it, else a copy that it may write to, with room for one more.
func (e *Edit[V]) mine(n *node[V]) *node[V] {
	if n.owner == e.own() {
		return n
	}
	c := &node[V]{owner: e.owner, keys: append(make([]string, 0, len(n.keys)+1), n.keys...)}
	if n.kids == nil {
		c.vals = append(make([]V, 0, len(n.vals)+1), n.vals...)
	} else {
		c.kids = append(make([]*node[V], 0, len(n.kids)+1), n.kids...)
	}
	return c
}
