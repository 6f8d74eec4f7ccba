package ordered

import "cmp"

// Diff calls fn, in order of key, for each entry that differs between two maps; the zero value stands for an entry that one of them lacks. What
// two maps of one history share is passed over whole, so the cost is that of what differs and not of what is there.
func Diff[V comparable](was, is Map[V], fn func(key string, was, is V)) {
	var none V
	a, b := cursorOf(was), cursorOf(is)
	for len(a.left) > 0 && len(b.left) > 0 {
		x, y := a.top(), b.top()
		switch {
		case x.node == y.node && a.at == b.at:
			a.drop()
			b.drop()
		case x.height > y.height:
			a.open()
		case y.height > x.height:
			b.open()
		case x.height > 0:
			a.open()
			b.open()
		default:
			step(a, b, fn)
		}
	}
	a.rest(func(key string, v V) { fn(key, v, none) })
	b.rest(func(key string, v V) { fn(key, none, v) })
}

// step compares the next entries of two leaves and passes over the lesser, or over both when they have one key.
func step[V comparable](a, b *cursor[V], fn func(key string, was, is V)) {
	var none V
	x, y := a.top(), b.top()
	p, q := x.keys[a.at], y.keys[b.at]
	v, w := x.vals[a.at], y.vals[b.at]
	switch cmp.Compare(p, q) {
	case -1:
		fn(p, v, none)
		a.next()
	case 1:
		fn(q, none, w)
		b.next()
	default:
		if v != w {
			fn(p, v, w)
		}
		a.next()
		b.next()
	}
}

// cursor is a place in a map: what has not been passed yet.
type cursor[V any] struct {
	left []subtree[V] // the next one last
	at   int          // next entry of the leaf that is next
}

type subtree[V any] struct {
	*node[V]
	height int // 0: a leaf
}

func cursorOf[V any](m Map[V]) *cursor[V] {
	c := new(cursor[V])
	if m.root == nil {
		return c
	}
	height := 0
	for n := m.root; n.kids != nil; n = n.kids[0] {
		height++
	}
	c.left = append(c.left, subtree[V]{m.root, height})
	return c
}

func (c *cursor[V]) top() subtree[V] { return c.left[len(c.left)-1] }

func (c *cursor[V]) drop() { c.left, c.at = c.left[:len(c.left)-1], 0 }

// open puts the kids of an inner node in its place.
func (c *cursor[V]) open() {
	n := c.top()
	c.drop()
	for i := len(n.kids) - 1; i >= 0; i-- {
		c.left = append(c.left, subtree[V]{n.kids[i], n.height - 1})
	}
}

func (c *cursor[V]) next() {
	if c.at++; c.at == len(c.top().keys) {
		c.drop()
	}
}

func (c *cursor[V]) rest(fn func(key string, v V)) {
	for len(c.left) > 0 {
		if n := c.top(); n.height > 0 {
			c.open()
		} else {
			fn(n.keys[c.at], n.vals[c.at])
			c.next()
		}
	}
}
