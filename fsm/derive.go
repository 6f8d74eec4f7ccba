package fsm

import (
	"maps"
	"slices"
	"strings"

	"berth/fleet"
	"berth/fsm/ordered"
)

// replicasBy lists replicas, which come in order of id, under the names that of gives for each, in order of name and id. It sorts the names
// alone and counts each name's replicas: a fraction of the work of sorting all.
func replicasBy(replicas []*fleet.Replica, of func(*fleet.Replica, func(string))) []ordered.Entry[*fleet.Replica] {
	g := grouping{number: map[string]int{}}
	for _, r := range replicas {
		of(r, g.add)
	}
	place := g.places()
	out := make([]ordered.Entry[*fleet.Replica], len(g.member))
	var keys keyring
	i := 0
	for _, r := range replicas {
		of(r, func(name string) {
			at := &place[g.member[i]]
			out[*at] = ordered.Entry[*fleet.Replica]{Key: keys.key(name, r.ID), Value: r}
			*at++
			i++
		})
	}
	return out
}

func modelsOf(r *fleet.Replica, add func(string)) { add(r.Model) }

func nodesOf(r *fleet.Replica, add func(string)) {
	for _, s := range r.Shards {
		add(s.Node)
	}
}

// grouping counts how often each name comes.
type grouping struct {
	number map[string]int // of a name, in the order in which they first came
	count  []int          // by number
	member []int          // the number of each name that came
}

func (g *grouping) add(name string) {
	n, known := g.number[name]
	if !known {
		n = len(g.count)
		g.number[name], g.count = n, append(g.count, 0)
	}
	g.count[n]++
	g.member = append(g.member, n)
}

// places returns, by number, where the first of a name goes when all are in order of name.
func (g *grouping) places() []int {
	place, next := make([]int, len(g.count)), 0
	for _, name := range slices.Sorted(maps.Keys(g.number)) {
		n := g.number[name]
		place[n], next = next, next+g.count[n]
	}
	return place
}

// keyring makes keys that share memory, a page for a few hundred of them.
type keyring struct{ page strings.Builder }

func (k *keyring) key(a, b string) string {
	size := len(a) + len(separator) + len(b)
	if k.page.Cap()-k.page.Len() < size {
		k.page = strings.Builder{}
		k.page.Grow(max(size, 8<<10))
	}
	start := k.page.Len()
	k.page.WriteString(a)
	k.page.WriteString(separator)
	k.page.WriteString(b)
	return k.page.String()[start:]
}
