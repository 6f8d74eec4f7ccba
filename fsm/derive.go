package fsm

import (
	"maps"
	"slices"
	"strings"

	"berth/fleet"
	"berth/fsm/ordered"
)

// replicasBy makes the table of replicas under the names that of gives for each, in order of name and id. They come in order of id, so it sorts
// the names alone and counts each name's replicas: a fraction of the work of sorting all.
func replicasBy(replicas []*fleet.Replica, of func(*fleet.Replica, func(string))) (table[fleet.Replica], bool) {
	g := grouping{number: map[string]int32{}}
	for i, r := range replicas {
		g.from = int32(i)
		of(r, g.add)
	}
	names, order := g.sorted()
	var keys keyring
	t, ok := ordered.Build(len(order), func(i int) (string, *fleet.Replica) {
		m := g.member[order[i]]
		r := replicas[m.from]
		return keys.key(names[m.number], r.ID), r
	})
	return table[fleet.Replica]{t}, ok
}

func modelsOf(r *fleet.Replica, add func(string)) { add(r.Model) }

func nodesOf(r *fleet.Replica, add func(string)) {
	for _, s := range r.Shards {
		add(s.Node)
	}
}

// grouping counts how often each name comes. It holds numbers and not pointers, because the garbage collector runs beside it.
type grouping struct {
	number map[string]int32 // of a name, in the order in which they first came
	names  []string         // by number
	count  []int            // by number
	member []member         // of the names, in the order in which they came
	from   int32            // the replica that names come from
}

type member struct{ number, from int32 }

func (g *grouping) add(name string) {
	n, known := g.number[name]
	if !known {
		n = int32(len(g.names))
		g.number[name] = n
		g.names, g.count = append(g.names, name), append(g.count, 0)
	}
	g.count[n]++
	g.member = append(g.member, member{n, g.from})
}

// sorted returns the names by number, and the places of all members in order of name and, within one name, as they came.
func (g *grouping) sorted() (names []string, order []int32) {
	place, next := make([]int, len(g.count)), 0
	for _, name := range slices.Sorted(maps.Keys(g.number)) {
		n := g.number[name]
		place[n], next = next, next+g.count[n]
	}
	order = make([]int32, len(g.member))
	for i, m := range g.member {
		order[place[m.number]] = int32(i)
		place[m.number]++
	}
	return g.names, order
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
