package agent_test

import (
	"context"
	"errors"
	"io"
	"slices"
	"strings"
	"sync"

	"berth/agent/shim"
	"berth/fleet"
	"berth/fleet/wire"
)

// maker is a machine's shims as a test sets them. It outlives agents.
type maker struct {
	mu        sync.Mutex
	last      uint64
	shims     []*handle
	startErr  func(shim.Launch) error
	unmanaged []fleet.Unmanaged
}

func newMaker() *maker { return &maker{startErr: func(shim.Launch) error { return nil }} }

func (m *maker) Start(_ context.Context, l shim.Launch) (shim.Handle, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.startErr(l); err != nil {
		return nil, err
	}
	m.last++
	l.Shim = m.last
	h := &handle{launch: l, renewed: make(chan struct{})}
	h.status = shim.Status{Version: 1, Phase: shim.Starting, Shim: l.Shim, Engine: 1, Order: l.Order.ID, Start: l.Order.Start,
		Master: l.Program.Master, Restarts: l.Restarts, Exit: l.Exit, Door: l.Door}
	if l.Order.Rank == 0 && l.Door == nil {
		h.status.Door = &fleet.Door{Address: host + ":20000", Key: "secret"}
	}
	m.shims = append(m.shims, h)
	return h, nil
}

func (m *maker) Find(context.Context) (shim.Found, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	f := shim.Found{Unmanaged: m.unmanaged}
	for _, h := range m.shims {
		h.mu.Lock()
		switch {
		case h.forgotten:
		case h.dead:
			f.Dead = append(f.Dead, shim.Dead{Launch: h.launch, Last: h.status, Stopping: h.stopping(), Stuck: h.stuck, Forget: h.forget})
		default:
			f.Live = append(f.Live, h)
		}
		h.mu.Unlock()
	}
	return f, nil
}

// all lists every shim ever started.
func (m *maker) all() []*handle {
	m.mu.Lock()
	defer m.mu.Unlock()
	return append([]*handle(nil), m.shims...)
}

func (m *maker) live() []*handle {
	var out []*handle
	for _, h := range m.all() {
		h.mu.Lock()
		if !h.dead && !h.forgotten {
			out = append(out, h)
		}
		h.mu.Unlock()
	}
	return out
}

// handle is a shim that does nothing by itself: a test says what becomes of it.
type handle struct {
	launch shim.Launch

	mu        sync.Mutex
	status    shim.Status
	renewed   chan struct{}
	orders    []shim.Order
	orderErr  error
	dead      bool
	stuck     bool
	forgotten bool
	closed    bool
	slow      chan struct{} // Reading waits for it, whatever its context says
	number    uint64
	asked     func() // when the door is asked
}

func (h *handle) stopping() bool {
	return len(h.orders) > 0 && h.orders[len(h.orders)-1].Action == wire.ActionStop
}

func (h *handle) forget() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.forgotten = true
	return nil
}

// become changes the shim's status.
func (h *handle) become(change func(*shim.Status)) {
	h.mu.Lock()
	defer h.mu.Unlock()
	change(&h.status)
	h.status.Version++
	close(h.renewed)
	h.renewed = make(chan struct{})
}

func (h *handle) phase(p shim.Phase) { h.become(func(st *shim.Status) { st.Phase = p }) }

// die ends the shim without closing it.
func (h *handle) die() {
	h.become(func(*shim.Status) {})
	h.mu.Lock()
	defer h.mu.Unlock()
	h.dead = true
	close(h.renewed)
	h.renewed = make(chan struct{})
}

func (h *handle) taken() []shim.Order {
	h.mu.Lock()
	defer h.mu.Unlock()
	return append([]shim.Order(nil), h.orders...)
}

// stops lists the orders to stop that the shim was given.
func (h *handle) stops() []shim.Order {
	return slices.DeleteFunc(h.taken(), func(o shim.Order) bool { return o.Action != wire.ActionStop })
}

func (h *handle) Launch() shim.Launch { return h.launch }

func (h *handle) Status(ctx context.Context, after uint64) (shim.Status, error) {
	for {
		h.mu.Lock()
		st, dead, renewed := h.status, h.dead || h.closed, h.renewed
		h.mu.Unlock()
		switch {
		case dead:
			return st, shim.ErrGone
		case st.Version > after:
			return st, nil
		}
		select {
		case <-renewed:
		case <-ctx.Done():
			return st, nil
		}
	}
}

func (h *handle) Order(_ context.Context, o shim.Order) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.orderErr != nil {
		return h.orderErr
	}
	h.orders = append(h.orders, o)
	return nil
}

func (h *handle) Reading(context.Context) (wire.Reading, error) {
	h.mu.Lock()
	slow, asked := h.slow, h.asked
	h.number++
	n := h.number
	h.mu.Unlock()
	if asked != nil {
		asked()
	}
	if slow != nil {
		<-slow
	}
	return wire.Reading{Shim: h.launch.Shim, Number: n}, nil
}

func (h *handle) Logs(_ context.Context, tail int, _ bool) (io.ReadCloser, error) {
	lines := strings.Split("one two three", " ")
	lines = lines[max(0, len(lines)-tail):]
	return io.NopCloser(strings.NewReader(strings.Join(lines, "\n") + "\n")), nil
}

func (h *handle) Kill(context.Context) error { h.die(); return nil }

// isClosed says whether the agent has closed the shim.
func (h *handle) isClosed() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.closed
}

func (h *handle) Close(context.Context) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.status.Ended() {
		return errors.New("its engine lives")
	}
	h.closed, h.forgotten = true, true
	close(h.renewed)
	h.renewed = make(chan struct{})
	return nil
}
