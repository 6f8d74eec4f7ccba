package shim

import (
	"context"
	"fmt"
	"time"

	"berth/fleet"
	"berth/fleet/wire"
)

const (
	defaultGrace = 30 * time.Second // between SIGTERM and SIGKILL
	killPatience = 10 * time.Second // after SIGKILL, before what lives on is called stuck
	cutAfter     = time.Second      // what the door gives requests when the whole shim ends
	proveEvery   = time.Second      // between looks at the cards
	healthyRun   = 10 * time.Minute // a run this long makes the next restart immediate and begins the count anew
	backoffFirst = time.Second
	backoffCap   = time.Minute
)

// life is the one goroutine that decides. It is driven by the newest order: each round of its loop either rests, because
// nothing is to run, or is one start of the engine from its beginning to its end.
type life struct {
	*Shim
	order     Order       // the one being carried out
	withdrawn fleet.Index // a conditional stop that was found to be unwanted; it counts as an order to run
	program   Program
	restarts  int
	wait      time.Duration // before the next start
	engine    uint64
	spent     uint64 // the start number that has had its engine: of a gang that exited, or that failed
	failed    string // why; empty: it did not
	started   uint64 // the start number of the last engine
}

func newLife(s *Shim) *life {
	return &life{Shim: s, order: s.cfg.Launch.first(), program: s.cfg.Launch.Program,
		restarts: s.cfg.Launch.Restarts, wait: backoff(s.cfg.Launch.Restarts)}
}

// backoff is the wait before the nth restart in a row: 1, 2, 4, 8 s and so on up to the cap.
func backoff(n int) time.Duration {
	if n <= 0 {
		return 0
	}
	if n > 6 { // 2^6 s is beyond the cap
		return backoffCap
	}
	return min(backoffFirst<<(n-1), backoffCap)
}

func (l *life) run(ctx context.Context) error {
	if l.restarts > l.order.Spec.Start.MaxRestarts {
		l.fail(fmt.Sprintf("%d restarts in a row", l.restarts-1))
	}
	for ctx.Err() == nil {
		l.take()
		switch {
		case l.stopDecided():
			l.rest(ctx, Stopped, l.order.Drain.Reason)
		case l.spent >= l.order.Start && l.failed != "":
			l.rest(ctx, Failed, l.failed)
		case l.spent >= l.order.Start && l.gang():
			l.rest(ctx, Exited, "")
		default:
			l.startOnce(ctx)
		}
	}
	return nil
}

// take makes the newest order the one being carried out. A stop on a condition is decided here, once: the door compares
// and shuts in one step, or the order is withdrawn.
func (l *life) take() {
	select {
	case <-l.poke:
	default:
	}
	o := l.newestOrder()
	if o.Program != nil {
		l.program = *o.Program
	}
	if o.ID != l.order.ID && o.Action == wire.ActionStop && o.Drain.Mark != nil && o.Rank == 0 && !l.gate.TryShut(*o.Drain.Mark) {
		l.withdrawn = o.ID
	}
	l.order = o
}

// stopDecided says that nothing is to run. A rank above 0 leaves the decision on a condition to rank 0's door.
// (DESIGN §8, rule 12.)
func (l *life) stopDecided() bool {
	o := l.order
	if o.Action != wire.ActionStop || o.ID == l.withdrawn {
		return false
	}
	return o.Rank == 0 || o.Drain.Mark == nil || o.Drain.DoorShut
}

func (l *life) gang() bool { return l.cfg.Launch.Gang() }

// startOnce waits for the back-off, starts the engine and follows it to its end.
func (l *life) startOnce(ctx context.Context) {
	if l.order.Start > l.started && l.started > 0 { // ordered, not a restart of ours
		l.wait, l.restarts, l.failed = 0, 0, ""
	}
	l.gate.Open()
	l.announce(Starting)
	if !l.pause(ctx, l.wait) {
		return
	}
	l.engine++
	l.started = l.order.Start
	l.gate.Starting(l.engine)
	l.board.load(time.Now())
	l.announce(Starting)
	p, key, err := l.exec()
	if err != nil {
		l.account(ending{why: err.Error(), exit: fleet.Exit{Code: -1, Log: []string{err.Error()}}})
		return
	}
	e := l.watch(ctx, p, key)
	l.gate.Starting(l.engine)
	l.board.load(time.Time{})
	l.end(ctx, p, &e)
	if l.door != nil {
		l.door.CloseIdle()
	}
	l.account(e)
}

// pause waits for d. It says false when an order or the end of the context came first.
func (l *life) pause(ctx context.Context, d time.Duration) bool {
	if d <= 0 {
		return ctx.Err() == nil
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-l.poke:
		return false
	case <-ctx.Done():
		return false
	}
}

// account decides what comes after an end: nothing when it was ordered, a restart after a wait, or the end of trying.
func (l *life) account(e ending) {
	if e.ordered {
		if l.gang() {
			l.spent = l.started // also when the stop is taken back too late: its other ranks have ended theirs
		}
		return
	}
	l.cfg.Logger.Warn("the engine ended by itself", "replica", l.order.Replica, "engine", l.engine,
		"code", e.exit.Code, "signal", e.exit.Signal, "why", e.why)
	e.exit.At = fleet.TimeOf(time.Now())
	if e.long {
		l.restarts = 0
	}
	l.restarts++
	l.wait = backoff(l.restarts)
	if e.long {
		l.wait = 0
	}
	switch {
	case e.stuck:
		l.fail("its processes lived on under SIGKILL")
	case l.gang():
		l.spent, l.restarts = l.started, 0
	case l.restarts > l.order.Spec.Start.MaxRestarts:
		l.fail(fmt.Sprintf("%s; %d restarts in a row", e.why, l.restarts-1))
	}
	l.board.say(func(st *Status) {
		st.Exit, st.Restarts, st.Reason = &e.exit, l.restarts, e.why
		if l.spent < l.order.Start {
			st.Phase = Starting
		}
	})
}

func (l *life) fail(why string) {
	l.spent, l.failed = l.order.Start, why
	l.gate.Shut()
}

// announce says that the newest order is being carried out, and that nothing of an earlier one is left.
func (l *life) announce(p Phase) {
	l.board.say(func(st *Status) {
		st.Phase, st.Order, st.Engine, st.Restarts = p, l.order.ID, l.engine, l.restarts
		st.Start, st.Master = max(st.Start, l.order.Start), l.program.Master
		st.Withdrawn = l.order.ID == l.withdrawn
		st.DoorShut, st.Cut, st.Released = false, 0, false
		if p == Ready {
			st.Reason = ""
		}
	})
}

// rest waits for a newer order with no engine running, and proves meanwhile that the cards are empty.
func (l *life) rest(ctx context.Context, p Phase, why string) {
	if p != Exited {
		l.gate.Shut()
	}
	l.board.say(func(st *Status) {
		if st.Order != l.order.ID { // it came when nothing ran any more
			st.Order, st.Withdrawn, st.Cut = l.order.ID, l.order.ID == l.withdrawn, 0
		}
		st.Phase, st.DoorShut = p, p != Exited
		if why != "" {
			st.Reason = why
		}
		if p == Failed {
			st.Restarts = max(0, l.restarts-1) // the last of them was not made
		}
	})
	for ctx.Err() == nil {
		wait := time.Duration(0)
		if p != Exited && l.cfg.CardsEmpty != nil && !l.prove(ctx) {
			wait = proveEvery
		}
		if l.idle(ctx, wait) {
			return
		}
	}
}

// prove looks at the cards once and says whether there is nothing left to prove.
func (l *life) prove(ctx context.Context) bool {
	if st, _ := l.board.now(); st.Released {
		return true
	}
	empty, err := l.cfg.CardsEmpty(ctx)
	if err != nil {
		l.cfg.Logger.Warn("cannot see whether the cards are empty", "replica", l.order.Replica, "error", err)
	}
	if empty && err == nil {
		l.board.say(func(st *Status) { st.Released = true })
	}
	return empty && err == nil
}

// idle waits for a newer order (true), for d if it is not zero (false), or for the end (true).
func (l *life) idle(ctx context.Context, d time.Duration) bool {
	var tick <-chan time.Time
	if d > 0 {
		t := time.NewTimer(d)
		defer t.Stop()
		tick = t.C
	}
	select {
	case <-l.poke:
		return true
	case <-ctx.Done():
		return true
	case <-tick:
		return false
	}
}
