package shim

import (
	"context"
	"fmt"
	"sync"
	"time"

	"berth/fleet"
	"berth/fleet/wire"
)

const (
	// progressWindow is how recent output must be to count as progress when the start's limit is reached.
	progressWindow = 2 * time.Minute
	// progressFactor bounds how far progress extends the limit: an engine that repeats one warning for ever also writes.
	progressFactor = 4
)

// ending is how one start of the engine is to end, or has ended.
type ending struct {
	ordered bool // by an order, or because the whole shim ends
	gently  bool // SIGTERM first
	long    bool // it had served for healthyRun
	stuck   bool
	why     string
	exit    fleet.Exit
}

// watch follows one start of the engine until it has ended or is to be ended. Channels that have nothing to say are nil.
type watch struct {
	*life
	p     Process
	since time.Time

	isReady, isLong bool

	ready chan struct{} // closed by the probe
	hung  chan string   // why, from the watch over the tokens
	limit *time.Timer   // of the start
	long  <-chan time.Time

	// of a drain
	draining          bool
	minimum, deadline *time.Timer
	empty             <-chan struct{} // once the door is shut
}

// watch returns when the engine has ended by itself, or when it is time to end it.
func (l *life) watch(ctx context.Context, p Process, apiKey string) ending {
	ctx, cancel := context.WithCancel(ctx)
	var helpers sync.WaitGroup
	defer helpers.Wait()
	defer cancel()
	w := &watch{life: l, p: p, since: time.Now(), ready: make(chan struct{}), hung: make(chan string, 1)}
	w.limit = time.NewTimer(w.timeout())
	defer w.stopTimers()
	probe := l.newProber(apiKey)
	helpers.Go(func() {
		defer probe.close()
		if probe.untilReady(ctx) != nil {
			return
		}
		close(w.ready)
		if why := probe.untilHung(ctx, l.gate.InFlight); why != "" {
			w.hung <- why
		}
	})
	for {
		if e, over := w.step(ctx); over {
			e.long = w.isLong
			return e
		}
	}
}

func (w *watch) stopTimers() {
	for _, t := range []*time.Timer{w.limit, w.minimum, w.deadline} {
		if t != nil {
			t.Stop()
		}
	}
}

// step waits for the next thing to happen. over says that the watch has ended.
func (w *watch) step(ctx context.Context) (e ending, over bool) {
	select {
	case <-w.p.Done():
		return w.died(), true
	case <-ctx.Done():
		return ending{ordered: true, why: "the shim ends"}, true
	case <-w.ready:
		w.becomeReady()
	case <-w.limit.C:
		return w.overdue()
	case why := <-w.hung:
		return ending{why: why}, !w.draining
	case <-w.long:
		w.isLong, w.restarts = true, 0
		w.board.say(func(st *Status) { st.Restarts = 0 })
	case <-w.poke:
		return w.obey()
	case <-after(w.minimum):
		w.shut()
	case <-after(w.deadline):
		return w.drained(), true
	case <-w.empty:
		return w.drained(), true
	}
	return ending{}, false
}

func after(t *time.Timer) <-chan time.Time {
	if t == nil {
		return nil
	}
	return t.C
}

// died is the end that nobody asked for, unless a drain was under way: then it is what was asked for, only sooner.
func (w *watch) died() ending {
	exit := w.p.Exit()
	why := fmt.Sprintf("exit code %d", exit.Code)
	if exit.Signal != "" {
		why = "ended by " + exit.Signal
	}
	if w.draining {
		w.gate.Shut()
		return w.drained()
	}
	return ending{why: why, exit: exit}
}

func (w *watch) becomeReady() {
	w.ready, w.isReady = nil, true
	w.limit.Stop()
	w.long = time.After(healthyRun)
	w.board.load(time.Time{})
	w.gate.Ready()
	w.cfg.Logger.Info("the engine is ready", "replica", w.order.Replica, "engine", w.engine, "after", time.Since(w.since))
	if !w.draining {
		w.announce(Ready)
	}
}

func (w *watch) timeout() time.Duration {
	if t := w.order.Spec.Start.Timeout.Std(); t > 0 {
		return t
	}
	return fleet.DefaultedSpec().Start.Timeout.Std()
}

// overdue gives a start that makes progress more time, and ends one that does not.
func (w *watch) overdue() (ending, bool) {
	if _, at := w.cfg.Output.Grown(); time.Since(at) < progressWindow && time.Since(w.since) < progressFactor*w.timeout() {
		w.limit.Reset(min(progressWindow, w.timeout()))
		return ending{}, false
	}
	why := fmt.Sprintf("load limit: not ready after %s", fleet.Duration(time.Since(w.since).Round(time.Second)))
	return ending{why: why, ordered: w.draining}, true
}

// obey acts on an order that came while the engine runs.
func (w *watch) obey() (ending, bool) {
	w.take()
	switch {
	case w.order.Action == wire.ActionRun && w.order.Start > w.started && w.gang():
		// Its other ranks start anew; what this one still does is worth nothing.
		return ending{ordered: true, why: "a new start was ordered"}, true
	case w.order.Action == wire.ActionRun && w.order.Start > w.started:
		w.drain(fleet.Drain{Deadline: w.order.Spec.Drain.Deadline, Reason: "a new start was ordered"})
	case w.order.Action == wire.ActionRun, w.order.ID == w.withdrawn:
		w.undrain()
	case w.order.Rank > 0 && !w.order.Drain.DoorShut && w.order.Drain.Failed == "":
		w.announce(Draining) // rank 0's door decides when
	case w.order.Rank > 0:
		w.announce(Stopping)
		return ending{ordered: true, gently: true, why: w.order.Drain.Reason}, true
	default:
		w.drain(*w.order.Drain)
	}
	return ending{}, false
}

// drain begins a stop, or changes the one under way, by this shim's own clock.
// (DESIGN §8, rule 10.)
func (w *watch) drain(d fleet.Drain) {
	w.draining = true
	w.announce(Draining)
	w.board.say(func(st *Status) { st.Reason = d.Reason })
	w.stopDrain()
	if d.Mark != nil { // the door has shut on the condition; there is nothing in flight, and no deadline
		w.empty = w.gate.Empty()
		return
	}
	w.deadline = time.NewTimer(max(d.Deadline.Std(), d.Minimum.Std()))
	if d.Minimum > 0 && w.isReady {
		w.minimum = time.NewTimer(d.Minimum.Std())
		return
	}
	w.shut()
}

func (w *watch) stopDrain() {
	for _, t := range []*time.Timer{w.minimum, w.deadline} {
		if t != nil {
			t.Stop()
		}
	}
	w.minimum, w.deadline, w.empty = nil, nil, nil
}

// shut is the end of the minimum: from now on late requests are refused, before anything was done for them.
func (w *watch) shut() {
	w.minimum = nil
	w.gate.Shut()
	w.empty = w.gate.Empty()
}

// undrain takes a stop back: the engine was not signalled yet, so nothing is lost.
// (DESIGN §8, rule 10.)
func (w *watch) undrain() {
	w.draining = false
	w.stopDrain()
	w.gate.Open()
	if w.isReady {
		w.announce(Ready)
		return
	}
	w.announce(Starting)
}

// drained is the end of a drain: nothing is in flight, or the deadline has passed and what is will be cut.
func (w *watch) drained() ending {
	w.gate.Shut()
	cut := w.gate.InFlight()
	again := w.order.Action == wire.ActionRun
	w.board.say(func(st *Status) {
		st.Phase, st.Cut, st.DoorShut = Stopping, cut, !again
		if again {
			st.Phase = Starting
		}
	})
	return ending{ordered: true, gently: true, why: "drained"}
}
