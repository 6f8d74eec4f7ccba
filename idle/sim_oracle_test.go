package idle_test

import (
	"cmp"
	"slices"
	"time"
)

// oracle is what truly happened at the engines: when each was ready and which requests reached it. It shares no code with the
// package under test and takes nothing from it.
type oracle struct{ replicas map[string]*truth }

type truth struct {
	uses []span
	runs []span
}

// span is [from, to); one that has not ended has to == open.
type span struct{ from, to time.Duration }

const open = time.Duration(1<<63 - 1)

func (o *oracle) of(replica string) *truth {
	t := o.replicas[replica]
	if t == nil {
		t = &truth{}
		o.replicas[replica] = t
	}
	return t
}

func (t *truth) ready(now time.Duration) { t.runs = append(t.runs, span{now, open}) }

// gone ends the engine and whatever it was serving.
func (t *truth) gone(now time.Duration) {
	for _, list := range [][]span{t.uses, t.runs} {
		for i := range list {
			if list[i].to == open {
				list[i].to = now
			}
		}
	}
}

// arrive notes a request; the function it gives ends it.
func (t *truth) arrive(now time.Duration) (end func(now time.Duration)) {
	t.prune(now)
	from := now
	t.uses = append(t.uses, span{from, open})
	return func(now time.Duration) {
		for i := range t.uses {
			if t.uses[i].from == from && t.uses[i].to == open {
				t.uses[i].to = now
				return
			}
		}
	}
}

// prune keeps two minutes of history, and the use that ended last however long ago.
func (t *truth) prune(now time.Duration) {
	if len(t.uses) < 64 {
		return
	}
	last := slices.MaxFunc(t.uses, func(a, b span) int { return cmp.Compare(a.to, b.to) })
	kept := append(t.uses[:0:0], last)
	for _, s := range t.uses {
		if s != last && s.to > now-2*time.Minute {
			kept = append(kept, s)
		}
	}
	t.uses = kept
}

// quiet is for how long, at the moment at, the engine then running had truly been ready and without a request.
func (t *truth) quiet(at time.Duration) time.Duration {
	since := open
	for _, s := range t.runs {
		if s.from <= at && at < s.to {
			since = s.from
		}
	}
	if since == open {
		return 0
	}
	for _, s := range t.uses {
		switch {
		case s.from > at:
		case s.to > at:
			return 0
		default:
			since = max(since, s.to)
		}
	}
	return at - since
}

func (t *truth) used() bool { return len(t.uses) > 0 }
