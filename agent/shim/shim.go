package shim

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strconv"
	"sync"
	"syscall"

	"berth/agent/shim/door"
	"berth/fleet"
	"berth/fleet/wire"
	"berth/internal/listen"
	"berth/internal/run"
)

// Config is what a Shim needs besides its Launch.
type Config struct {
	Launch  Launch
	Network listen.Network // the door listens on it, and reaches the engine by it
	Policy  listen.Policy  // of the door's listener
	Starter Starter
	Clock   door.Clock
	Output  *Output
	// CardsEmpty says whether none of the engine's processes holds a card any more. Nil leaves that proof to the agent.
	CardsEmpty func(context.Context) (bool, error)
	// Keep makes an order durable before it is taken. Nil: nothing is kept.
	Keep   func(Order) error
	Logger *slog.Logger
}

// Shim is one shard's engine and its door.
type Shim struct {
	cfg   Config
	gate  *door.Gate
	board *board
	ln    net.Listener  // rank 0, after Listen
	door  *door.Handler // rank 0, after Listen

	taking sync.Mutex // one order at a time; held while it is made durable
	mu     sync.Mutex // guards newest; never held while waiting, so that a slow disk stops no drain
	newest Order
	poke   chan struct{} // holds one token when newest has changed
}

// New makes a shim; [Shim.Run] is its life.
func New(c Config) (*Shim, error) {
	if err := c.Launch.Validate(); err != nil {
		return nil, err
	}
	o := c.Launch.first()
	return &Shim{
		cfg:    c,
		gate:   door.NewGate(c.Launch.Shim, c.Clock),
		newest: o,
		poke:   make(chan struct{}, 1),
		board: newBoard(Status{
			Phase: Starting, Shim: c.Launch.Shim, Order: o.ID, Start: o.Start,
			Restarts: c.Launch.Restarts, Exit: c.Launch.Exit,
		}),
	}, nil
}

// Listen opens the door's port and makes its key, unless the launch says which they are. After it the status names
// both. A rank above 0 has no door.
func (s *Shim) Listen(ctx context.Context) error {
	if s.cfg.Launch.Order.Rank > 0 {
		s.board.say(func(*Status) {})
		return nil
	}
	d := fleet.Door{Key: newKey()}
	var err error
	if keep := s.cfg.Launch.Door; keep != nil {
		d = *keep
		s.ln, err = s.open(ctx, d.Address)
	} else {
		s.ln, err = s.openAny(ctx)
	}
	if err != nil {
		return fmt.Errorf("door of %s: %w", s.cfg.Launch.Order.Replica, err)
	}
	d.Address = s.ln.Addr().String()
	s.door = door.New(door.Config{
		Gate: s.gate, Key: d.Key, Engine: s.cfg.Launch.Program.Engine, Network: s.cfg.Network, Log: s.cfg.Logger,
	})
	s.board.say(func(st *Status) { st.Door = &d })
	return nil
}

// openAny takes the first free port of the range.
func (s *Shim) openAny(ctx context.Context) (net.Listener, error) {
	l := s.cfg.Launch
	for port := l.FirstPort; port <= l.LastPort; port++ {
		ln, err := s.open(ctx, net.JoinHostPort(l.Bind, strconv.Itoa(port)))
		if !errors.Is(err, syscall.EADDRINUSE) {
			return ln, err
		}
	}
	return nil, fmt.Errorf("all ports from %d to %d of %s are in use: widen engine_ports", l.FirstPort, l.LastPort, l.Bind)
}

func (s *Shim) open(ctx context.Context, addr string) (net.Listener, error) {
	return s.cfg.Policy.Listen(ctx, s.cfg.Network, listen.Spec{Addr: addr, Flag: "engine_bind"})
}

// Run is the shim's life: it returns when the context ends, with nothing of the engine left unless SIGKILL cannot end
// it. It calls Listen if nobody has.
func (s *Shim) Run(ctx context.Context) error {
	if st, _ := s.board.now(); st.Version == 0 {
		if err := s.Listen(ctx); err != nil {
			return err
		}
	}
	g := run.NewGroup(ctx)
	if s.door != nil {
		defer s.door.CloseIdle()
		g.Add("door", func(ctx context.Context) error {
			return listen.ServeHTTP(ctx, s.ln, s.door, listen.ServerOptions{H2C: true, Drain: cutAfter, Log: s.cfg.Logger})
		})
	}
	g.Add("engine", func(ctx context.Context) error { return newLife(s).run(ctx) })
	output, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	written := make(chan error, 1)
	go func() { written <- s.cfg.Output.Run(output) }()
	err := g.Wait()
	stop() // after the engine, whose last words are worth most
	return errors.Join(err, <-written)
}

// Order takes an order if none newer was taken, and after it is durable. See [Handle].
func (s *Shim) Order(o Order) error {
	s.taking.Lock()
	defer s.taking.Unlock()
	newest := s.newestOrder()
	if err := s.check(o, newest.ID); err != nil {
		return err
	}
	if o.ID == newest.ID && !news(o, newest) {
		return nil
	}
	if s.cfg.Keep != nil {
		if err := s.cfg.Keep(o); err != nil {
			return fmt.Errorf("order %s of %s is not taken: %w", o.ID, o.Replica, err)
		}
	}
	s.mu.Lock()
	s.newest = o
	s.mu.Unlock()
	select {
	case s.poke <- struct{}{}:
	default:
	}
	return nil
}

func (s *Shim) check(o Order, newest fleet.Index) error {
	replica := s.cfg.Launch.Order.Replica
	switch {
	case o.Replica != replica || o.Rank != s.cfg.Launch.Order.Rank:
		return fleet.Errorf(fleet.BadRequest, "an order for rank %d of %s reached the shim of rank %d of %s", o.Rank, o.Replica, s.cfg.Launch.Order.Rank, replica)
	case o.ID.Before(newest):
		return fleet.Errorf(fleet.TooOld, "order %s of %s is older than %s, which was taken", o.ID, replica, newest)
	case o.Action == wire.ActionStop && o.Drain != nil, o.Action == wire.ActionRun:
		return nil
	}
	return fleet.Errorf(fleet.BadRequest, "order %s of %s is %q: want run, or stop with how to drain", o.ID, replica, o.Action)
}

// news says whether an order of the same index says more than it did: that rank 0's door is shut.
func news(o, before Order) bool {
	return o.Drain != nil && o.Drain.DoorShut && before.Drain != nil && !before.Drain.DoorShut
}

func (s *Shim) newestOrder() Order {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.newest
}

// Newest gives the newest order taken after the launch, or nil.
func (s *Shim) Newest() *Order {
	o := s.newestOrder()
	if o.ID == s.cfg.Launch.Order.ID {
		return nil
	}
	return &o
}

// Closable says why the shim cannot be closed yet, or nil: nothing of its engine is left.
func (s *Shim) Closable() error {
	st, _ := s.board.now()
	if st.Ended() {
		return nil
	}
	return fleet.Errorf(fleet.Conflict, "shim %d of %s is %s", st.Shim, s.cfg.Launch.Order.Replica, st.Phase).WithHint("order it to stop first, or kill it")
}

// Status waits for a status newer than after; see [Handle].
func (s *Shim) Status(ctx context.Context, after uint64) Status { return s.board.wait(ctx, after) }

// Reading asks the door; a rank above 0 has none.
func (s *Shim) Reading() (wire.Reading, error) {
	o := s.cfg.Launch.Order
	if o.Rank > 0 {
		return wire.Reading{}, fleet.Errorf(fleet.NotFound, "rank %d of %s has no door", o.Rank, o.Replica)
	}
	r := s.gate.Reading()
	r.Replica = o.Replica
	return r, nil
}

// Launch is what the shim was made with.
func (s *Shim) Launch() Launch { return s.cfg.Launch }

// Output is what the engine wrote.
func (s *Shim) Output() *Output { return s.cfg.Output }
