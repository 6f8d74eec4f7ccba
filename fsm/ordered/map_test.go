package ordered

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// check holds a map against what it must hold, and its nodes against the rules that make it a search tree.
func check(t testing.TB, m Map[int], want map[string]int) {
	t.Helper()
	keys := slices.Sorted(maps.Keys(want))
	i := 0
	for k, v := range m.Prefix("") {
		if i >= len(keys) || k != keys[i] || v != want[k] {
			t.Fatalf("entry %d is %q=%d; the keys are %q", i, k, v, keys)
		}
		i++
	}
	if i != len(keys) || m.Len() != len(keys) {
		t.Fatalf("%d entries, says %d; want %d", i, m.Len(), len(keys))
	}
	for k, v := range want {
		if got, ok := m.Get(k); !ok || got != v {
			t.Fatalf("Get(%q) = %d, %v; want %d", k, got, ok, v)
		}
	}
	if m.root != nil {
		checkNode(t, m.root, "", "\xff")
	}
}

// checkNode returns the depth of the node.
func checkNode(t testing.TB, n *node[int], from, below string) int {
	t.Helper()
	if len(n.keys) == 0 || len(n.keys) > full || !slices.IsSorted(n.keys) || n.keys[len(n.keys)-1] >= below {
		t.Fatalf("a node with the keys %q between %q and %q", n.keys, from, below)
	}
	if n.kids == nil {
		if n.keys[0] < from || len(n.vals) != len(n.keys) {
			t.Fatalf("a leaf with the keys %q from %q, %d values", n.keys, from, len(n.vals))
		}
		return 0
	}
	depth := -1
	for i, k := range n.kids {
		end := below
		if i+1 < len(n.keys) {
			end = n.keys[i+1]
		}
		d := checkNode(t, k, n.keys[i], end)
		if depth >= 0 && d != depth {
			t.Fatalf("leaves at different depths under %q", n.keys)
		}
		depth = d
	}
	return depth + 1
}

// TestAgainstGoMap makes random changes and holds every version of the map, old ones too, against a Go map of the same moment.
func TestAgainstGoMap(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		type version struct {
			m    Map[int]
			want map[string]int
		}
		m, want := start(r)
		past := []version{{m, maps.Clone(want)}}
		for range rapid.IntRange(1, 6).Draw(r, "edits") {
			e := m.Edit()
			for range rapid.IntRange(0, 150).Draw(r, "changes") {
				k := fmt.Sprint(rapid.IntRange(0, 400).Draw(r, "key"))
				_, had := want[k]
				if rapid.Bool().Draw(r, "put") {
					v := rapid.Int().Draw(r, "value")
					if e.Put(k, v) == had {
						r.Fatalf("Put(%q): new is %v", k, !had)
					}
					want[k] = v
				} else {
					if e.Delete(k) != had {
						r.Fatalf("Delete(%q): had is %v", k, had)
					}
					delete(want, k)
				}
			}
			m = e.Map()
			past = append(past, version{m, maps.Clone(want)})
		}
		for _, v := range past {
			check(t, v.m, v.want)
		}
	})
}

func start(r *rapid.T) (Map[int], map[string]int) {
	want := map[string]int{}
	for i := range rapid.SampledFrom([]int{0, 1, full, full + 1, 40 * full}).Draw(r, "size") {
		want[fmt.Sprintf("%d", i)] = i
	}
	var entries []Entry[int]
	for _, k := range slices.Sorted(maps.Keys(want)) {
		entries = append(entries, Entry[int]{k, want[k]})
	}
	m, ok := FromSorted(entries)
	if !ok {
		r.Fatal("sorted entries are refused")
	}
	return m, want
}

func TestPrefix(t *testing.T) {
	var e Edit[int]
	var all []string
	for i := range 3000 {
		k := fmt.Sprintf("%d\x00%d", i%70, i)
		e.Put(k, i)
		all = append(all, k)
	}
	slices.Sort(all)
	m := e.Map()
	for _, p := range []string{"", "1", "1\x00", "69\x00", "7", "99", "0\x000", "0\x00"} {
		var got, want []string
		for k := range m.Prefix(p) {
			got = append(got, k)
		}
		for _, k := range all {
			if strings.HasPrefix(k, p) {
				want = append(want, k)
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("prefix %q: %d keys, want %d", p, len(got), len(want))
		}
	}
	for range m.Prefix("") {
		break // an early end must not go on
	}
}

func TestFromSortedRefusesDisorder(t *testing.T) {
	for _, keys := range [][]string{{"b", "a"}, {"a", "a"}} {
		if _, ok := FromSorted([]Entry[int]{{keys[0], 0}, {keys[1], 0}}); ok {
			t.Errorf("%q are taken", keys)
		}
	}
}

func BenchmarkPut(b *testing.B) {
	entries := make([]Entry[int], 100_000)
	for i := range entries {
		entries[i].Key = fmt.Sprintf("%08d", i)
	}
	m, _ := FromSorted(entries)
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		e := m.Edit()
		e.Put(entries[i%len(entries)].Key, i)
		m = e.Map()
	}
}

func BenchmarkFromSorted(b *testing.B) {
	entries := make([]Entry[int], 100_000)
	for i := range entries {
		entries[i].Key = fmt.Sprintf("%08d", i)
	}
	b.ReportAllocs()
	for b.Loop() {
		FromSorted(entries)
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(len(entries)), "ns/row")
}
