package peer

import (
	"context"
	"sync"
	"time"

	"berth/fleet"
	"berth/fleet/wire"
	"berth/fsm"
)

const (
	// historyPace is how long changes are collected before they are written down.
	historyPace = 50 * time.Millisecond
	// historyBehind is how many entries wait to be written down. When there are more, as while a long log is read again, what they did together is
	// written down as one change of nobody's.
	historyBehind = 4096
)

// history writes down what each entry of the log changed, by comparing the state that it made with the one before. What comes with a snapshot is
// compared too, but nobody can say who did it.
type history struct {
	state func() *fsm.State
	note  func(wire.Event)

	mu      sync.Mutex
	entries []fsm.Applied // applied and not written down yet
	was     *fsm.State    // written down up to here; for run alone
}

func newHistory(m *fsm.Machine, note func(wire.Event)) *history {
	h := &history{state: m.State, note: note, was: m.State()}
	m.Tell(h.applied)
	return h
}

// applied takes an entry. It is called while the entry is being applied, so that an entry whose state can be seen is here already.
func (h *history) applied(a fsm.Applied) {
	if a.Outcome.Err != nil || !a.Outcome.Changed {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.entries) == historyBehind {
		h.entries = h.entries[:0]
	}
	h.entries = append(h.entries, a)
}

func (h *history) take() []fsm.Applied {
	h.mu.Lock()
	defer h.mu.Unlock()
	taken := h.entries
	h.entries = nil
	return taken
}

func (h *history) run(ctx context.Context) error {
	for {
		h.catchUp()
		select {
		case <-ctx.Done():
			return nil
		case <-h.was.Watch():
		}
		pause(ctx, historyPace)
	}
}

// catchUp writes down everything that can be seen. The newest state is loaded first: the entries that made it are there by then.
func (h *history) catchUp() {
	is := h.state()
	for _, a := range h.take() {
		if h.was.Index().Before(a.State.Index()) {
			h.write(&a, a.State)
		}
	}
	if h.was.Index().Before(is.Index()) {
		h.write(nil, is)
	}
}

// write writes down what differs between the last state written down and another.
func (h *history) write(by *fsm.Applied, is *fsm.State) {
	p := page{by: by, first: h.was.Index().IsZero(), now: fleet.TimeOf(time.Now()), newest: is.Index(), note: h.note}
	p.compare(h.was, is)
	h.was = is
}
