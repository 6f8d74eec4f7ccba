package ordered

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

type change struct {
	key     string
	was, is int
}

func diffOf(was, is Map[int]) []change {
	var out []change
	Diff(was, is, func(key string, was, is int) { out = append(out, change{key, was, is}) })
	return out
}

// Diff says what a comparison of every entry says, in order, for maps of one history as for maps that share nothing.
func TestDiffIsAComparisonOfEveryEntry(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		was, before := randomMap(t, "was", Map[int]{}, map[string]int{})
		related := rapid.Bool().Draw(t, "related")
		base, content := Map[int]{}, map[string]int{}
		if related {
			base, content = was, maps.Clone(before)
		}
		is, content := randomMap(t, "is", base, content)
		var want []change
		for _, key := range slices.Sorted(maps.Keys(union(before, content))) {
			if before[key] != content[key] {
				want = append(want, change{key, before[key], content[key]})
			}
		}
		if got := diffOf(was, is); !slices.Equal(got, want) {
			t.Fatalf("got %v, want %v", got, want)
		}
	})
}

func union(a, b map[string]int) map[string]int {
	out := maps.Clone(a)
	maps.Copy(out, b)
	return out
}

func randomMap(t *rapid.T, name string, m Map[int], content map[string]int) (Map[int], map[string]int) {
	e := m.Edit()
	for range rapid.SampledFrom([]int{0, 3, 300}).Draw(t, name+" size") {
		key := fmt.Sprint(rapid.IntRange(0, 999).Draw(t, "key"))
		if v := rapid.IntRange(0, 3).Draw(t, "value"); v == 0 {
			e.Delete(key)
			delete(content, key)
		} else {
			e.Put(key, v)
			content[key] = v
		}
	}
	return e.Map(), content
}

func BenchmarkDiffOfOneChange(b *testing.B) {
	for _, size := range []int{1_000, 30_000, 1_000_000} {
		b.Run(fmt.Sprint(size), func(b *testing.B) {
			var entries []Entry[int]
			for i := range size {
				entries = append(entries, Entry[int]{fmt.Sprintf("%08d", i), 1})
			}
			was, _ := FromSorted(entries)
			e := was.Edit()
			e.Put(fmt.Sprintf("%08d", size/3), 2)
			is := e.Map()
			for b.Loop() {
				if len(diffOf(was, is)) != 1 {
					b.Fatal("not one change")
				}
			}
		})
	}
}
