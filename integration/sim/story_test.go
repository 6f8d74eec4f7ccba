package sim

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// story is the trace of one run, written as it happens, so that it is whole also when the process ends in the middle: who did what, when, in
// simulated seconds since the start. It is kept when the run fails.
type story struct {
	path  string
	start time.Time

	mu  sync.Mutex
	out io.WriteCloser
	bad []string
}

// tell begins a story. It is removed at the end of a run that was right.
func tell(t *testing.T, title string, seed uint64) *story {
	t.Helper()
	name := fmt.Sprintf("berth-sim-%s-%d.txt", title, seed)
	s := &story{path: filepath.Join(*storiesFlag, name), start: time.Now()}
	f, err := os.Create(s.path)
	if err != nil {
		t.Fatal(err)
	}
	s.out = f
	s.say("story", "%s, seed %d; once more: go test ./integration/sim -run 'TestSimulation/%s' -sim.seed %d", title, seed, title, seed)
	t.Cleanup(func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		_ = f.Close()
		if t.Failed() {
			t.Logf("the whole story is in %s", s.path)
			return
		}
		_ = os.Remove(s.path)
	})
	return s
}

// say writes one line.
func (s *story) say(who, format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	fmt.Fprintf(s.out, "%9.3f  %-9s %s\n", time.Since(s.start).Seconds(), who, fmt.Sprintf(format, args...))
}

// wrong notes a broken promise.
func (s *story) wrong(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	s.say("WRONG", "%s", text)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.bad = append(s.bad, text)
}

func (s *story) broken() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.bad)
}

// teller is a log handler that lets a peer's own words into the story.
type teller struct {
	story *story
	who   string
	attrs string
	tally *tally
}

func (h teller) Enabled(_ context.Context, l slog.Level) bool { return l >= slog.LevelInfo }
func (h teller) WithGroup(string) slog.Handler                { return h }

func (h teller) WithAttrs(attrs []slog.Attr) slog.Handler {
	for _, a := range attrs {
		h.attrs += " " + a.String()
	}
	return h
}

func (h teller) Handle(_ context.Context, r slog.Record) error {
	var b strings.Builder
	r.Attrs(func(a slog.Attr) bool { fmt.Fprintf(&b, " %s", a); return true })
	if r.Message == "leading" {
		h.tally.add("leader changes", 1)
	}
	mark := ""
	if r.Level > slog.LevelInfo {
		mark = r.Level.String() + ": "
	}
	h.story.say(h.who, "%s%s%s%s", mark, r.Message, h.attrs, b.String())
	return nil
}
