package sim

import (
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestTokenizeIsReversible(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.String().Draw(t, "text") + string(rapid.SliceOf(rapid.Byte()).Draw(t, "bytes"))
		tokens := Tokenize(text)
		back, err := Detokenize(tokens)
		if err != nil || back != text {
			t.Fatalf("%q came back as %q, %v", text, back, err)
		}
		if n := len(tokens); n > len(text) || n*maxPiece < len(text) {
			t.Fatalf("%d tokens for %d bytes", n, len(text))
		}
	})
}

func TestDetokenizeRefuses(t *testing.T) {
	for _, bad := range []int64{0, -1, 65, 5 << 32, 1<<32 | 0x4142} {
		if s, err := Detokenize([]int64{number("ok"), bad}); err == nil || !strings.Contains(err.Error(), "position 1") {
			t.Errorf("%d is %q, %v; want an error with its position", bad, s, err)
		}
	}
}

func TestAnswersAreTokensOfTheirText(t *testing.T) {
	words := newBabble(Tokenize("why?"))
	var text strings.Builder
	var made []int64
	for range 500 {
		w := words.next()
		text.WriteString(w)
		made = append(made, number(w))
	}
	if !slices.Equal(Tokenize(text.String()), made) {
		t.Error("an answer's text is cut into other tokens than it was made of: the next turn would miss the cache")
	}
	if again := newBabble(Tokenize("why?")).next(); again != newBabble(Tokenize("why?")).next() || !strings.HasPrefix(text.String(), again) {
		t.Error("one prompt has two answers")
	}
}

// modelCache is the prefix cache in its plainest form: block texts in order of use.
type modelCache struct {
	capacity int
	used     []string // newest last
}

func (m *modelCache) touch(blocks []string) {
	for _, b := range slices.Backward(blocks) {
		if i := slices.Index(m.used, b); i >= 0 {
			m.used = slices.Delete(m.used, i, i+1)
		}
		m.used = append(m.used, b)
	}
}

func (m *modelCache) prefixes(tokens []int64, n int) []string {
	var out []string
	for end := BlockSize; end <= n; end += BlockSize {
		s, _ := Detokenize(tokens[:end])
		out = append(out, s)
	}
	return out
}

func (m *modelCache) lookup(tokens []int64) int {
	hits := m.prefixes(tokens, len(tokens)-1)
	for i, p := range hits {
		if !slices.Contains(m.used, p) {
			hits = hits[:i]
			break
		}
	}
	m.touch(hits)
	return len(hits) * BlockSize
}

func (m *modelCache) insert(tokens []int64) {
	all := m.prefixes(tokens, len(tokens))
	m.touch(all[:min(len(all), m.capacity)])
	m.used = m.used[max(0, len(m.used)-m.capacity):]
}

func TestCacheIsItsModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		capacity := rapid.IntRange(1, 6).Draw(t, "capacity")
		c, m := newPrefixCache(capacity), &modelCache{capacity: capacity}
		for range 40 {
			// Few different blocks, so that prompts share prefixes.
			var tokens []int64
			for _, b := range rapid.SliceOfN(rapid.SampledFrom([]string{"a", "b", "c"}), 1, 5).Draw(t, "blocks") {
				tokens = append(tokens, slices.Repeat([]int64{number(b)}, BlockSize)...)
			}
			tokens = tokens[:len(tokens)-rapid.IntRange(0, 3).Draw(t, "short by")]
			if got, want := c.lookup(tokens), m.lookup(tokens); got != want {
				t.Fatalf("%d tokens cached, want %d", got, want)
			}
			if rapid.Bool().Draw(t, "insert") {
				c.insert(tokens)
				m.insert(tokens)
			}
			if len(c.blocks) != len(m.used) || c.order.Len() != len(m.used) {
				t.Fatalf("%d blocks, %d in order, want %d", len(c.blocks), c.order.Len(), len(m.used))
			}
		}
	})
}
