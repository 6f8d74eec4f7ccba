package fsm

import (
	"strconv"
	"strings"
	"testing"

	"berth/fleet"
)

// line is one command line in its parts.
type line struct {
	t     *testing.T
	words []string
	opts  map[string]string
}

func parseLine(t *testing.T, text string) line {
	l := line{t: t, opts: map[string]string{}}
	for _, w := range splitQuoted(text) {
		if k, v, ok := strings.Cut(w, "="); ok && !strings.ContainsAny(k, "/:-\"") {
			l.opts[k] = v
			continue
		}
		l.words = append(l.words, w)
	}
	return l
}

func splitQuoted(s string) []string {
	var out []string
	var word strings.Builder
	quoted, started := false, false
	for _, r := range s {
		switch {
		case r == '"':
			quoted, started = !quoted, true
		case r == ' ' && !quoted:
			if started {
				out = append(out, word.String())
			}
			word.Reset()
			started = false
		default:
			word.WriteRune(r)
			started = true
		}
	}
	if started {
		out = append(out, word.String())
	}
	return out
}

func (l line) word(i int) string {
	if i >= len(l.words) {
		return ""
	}
	return l.words[i]
}

func (l line) num(key string, def int) int {
	v, ok := l.opts[key]
	if !ok {
		return def
	}
	n, err := strconv.Atoi(v)
	if err != nil {
		l.t.Fatalf("%s=%s: %v", key, v, err)
	}
	return n
}

func (l line) dur(key string, def fleet.Duration) fleet.Duration {
	if v, ok := l.opts[key]; ok {
		must(l.t, def.UnmarshalText([]byte(v)))
	}
	return def
}

func (l line) index(key string) *fleet.Index {
	v, ok := l.opts[key]
	if !ok {
		return nil
	}
	i, err := fleet.ParseIndex(v)
	must(l.t, err)
	return &i
}

func (l line) list(key string) []string {
	if l.opts[key] == "" {
		return nil
	}
	return strings.Split(l.opts[key], ",")
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func itoa(n int) string { return strconv.Itoa(n) }
