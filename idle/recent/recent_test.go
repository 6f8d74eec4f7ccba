package recent

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

func TestSinceGivesTheOldestChangesFirst(t *testing.T) {
	var m Map[int]
	for i, key := range []string{"a", "b", "c", "a"} {
		m.Put(key, i)
	}
	given := func(version uint64, most int) (keys []string, upTo uint64) {
		rows, upTo := m.Since(version, most)
		for key := range rows {
			keys = append(keys, key)
		}
		return keys, upTo
	}
	for _, c := range []struct {
		version uint64
		most    int
		keys    []string
		upTo    uint64
	}{
		{0, 9, []string{"b", "c", "a"}, 4}, {0, 3, []string{"b", "c", "a"}, 4}, {0, 2, []string{"b", "c"}, 3}, {0, 1, []string{"b"}, 2},
		{2, 9, []string{"c", "a"}, 4}, {3, 9, []string{"a"}, 4}, {4, 9, nil, 4}, {99, 9, nil, 4},
	} {
		if keys, upTo := given(c.version, c.most); !slices.Equal(keys, c.keys) || upTo != c.upTo {
			t.Errorf("since %d, at most %d: %v up to %d, want %v up to %d", c.version, c.most, keys, upTo, c.keys, c.upTo)
		}
	}
	m.Delete("a")
	if keys, upTo := given(0, 9); !slices.Equal(keys, []string{"b", "c"}) || upTo != 4 {
		t.Errorf("after the newest is gone: %v up to %d", keys, upTo)
	}
	m.Delete("b")
	m.Delete("b")
	m.Delete("c")
	if keys, _ := given(0, 9); keys != nil || m.Len() != 0 {
		t.Errorf("of an empty map: %v, %d entries", keys, m.Len())
	}
}

// Whoever asks again and again, however few entries it takes at a time, has every entry that is still there as it was set last.
func TestFollowing(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 1))
	var m Map[int]
	followed, have := map[string]int{}, uint64(0)
	follow := func(most int) int {
		rows, upTo := m.Since(have, most)
		n := 0
		for key, value := range rows {
			followed[key] = value
			n++
		}
		have = upTo
		return n
	}
	for i := range 20_000 {
		key := fmt.Sprint(rng.IntN(50))
		switch rng.IntN(10) {
		case 0:
			m.Delete(key)
		case 1:
			follow(1 + rng.IntN(8))
		default:
			m.Put(key, i)
		}
		if v, ok := m.Get(key); ok && v > i {
			t.Fatalf("%s is %d", key, v)
		}
	}
	for follow(3) > 0 {
	}
	maps.DeleteFunc(followed, func(key string, _ int) bool { _, ok := m.Get(key); return !ok })
	if is := maps.Collect(m.All()); !maps.Equal(is, followed) || len(is) != m.Len() || len(is) == 0 {
		t.Errorf("followed %v\nis       %v", followed, is)
	}
}
