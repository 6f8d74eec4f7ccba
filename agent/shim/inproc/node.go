// Package inproc makes shims that are goroutines: for clusters in one process and for test bubbles. It owns a machine
// without processes, the Node, which outlives whatever agent uses it, as a real machine does. It must never know what an
// engine is; a function makes one.
package inproc

import (
	"context"
	"io"
	"log/slog"
	"slices"
	"sync"

	"berth/agent/shim"
	"berth/agent/shim/door"
	"berth/fleet"
	"berth/fleet/wire"
	"berth/internal/listen"
)

// Config is what a Node needs.
type Config struct {
	Network listen.Network
	Policy  listen.Policy
	Clock   door.Clock
	Engines NewEngine
	// CardsEmpty is asked with a shard's claims after its end. Nil leaves the proof to the agent.
	CardsEmpty func(context.Context, []fleet.Claim) (bool, error)
	LogDir     string // root of the engines' output files; empty: memory only
	Logger     *slog.Logger
}

// Node is a machine: it owns shims, by number. It is a [shim.Maker].
type Node struct {
	cfg Config
	ctx context.Context
	end context.CancelFunc
	all sync.WaitGroup

	mu    sync.Mutex
	last  uint64
	shims map[uint64]*resident
}

// resident is a shim on the node, alive or dead.
type resident struct {
	shim *shim.Shim
	life context.Context
	end  context.CancelFunc
	done chan struct{}
	last shim.Status // once done
}

// NewNode makes a node whose shims end with ctx. Its owner calls Close.
func NewNode(ctx context.Context, c Config) *Node {
	ctx, end := context.WithCancel(ctx)
	return &Node{cfg: c, ctx: ctx, end: end, shims: make(map[uint64]*resident)}
}

// Close ends every shim, as the end of the machine does, and waits.
func (n *Node) Close() {
	n.end()
	n.all.Wait()
}

// Start implements [shim.Maker].
func (n *Node) Start(ctx context.Context, l shim.Launch) (shim.Handle, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.ctx.Err() != nil {
		return nil, shim.ErrGone
	}
	n.last++
	l.Shim = n.last
	if n.cfg.LogDir != "" {
		l.Logs = shim.LogDir(n.cfg.LogDir, l.Order.Replica, l.Order.Rank)
	}
	s, err := shim.New(n.configure(l))
	if err != nil {
		return nil, err
	}
	if err := s.Listen(ctx); err != nil {
		return nil, err
	}
	r := &resident{shim: s, done: make(chan struct{})}
	r.life, r.end = context.WithCancel(n.ctx)
	n.shims[l.Shim] = r
	n.all.Go(func() {
		defer close(r.done)
		if err := s.Run(r.life); err != nil {
			n.cfg.Logger.Error("shim ended", "replica", l.Order.Replica, "shim", l.Shim, "error", err)
		}
		r.end()
		r.last = s.Status(r.life, 0)
	})
	return handle{n, r}, nil
}

func (n *Node) configure(l shim.Launch) shim.Config {
	c := shim.Config{
		Launch: l, Network: n.cfg.Network, Policy: n.cfg.Policy, Starter: starter{n.cfg.Engines},
		Clock: n.cfg.Clock, Output: shim.NewOutput(l.Logs), Logger: n.cfg.Logger,
	}
	c.Policy.InsecureNoTLS = c.Policy.InsecureNoTLS || l.InsecureNoTLS
	if f := n.cfg.CardsEmpty; f != nil {
		c.CardsEmpty = func(ctx context.Context) (bool, error) { return f(ctx, l.Order.Claims) }
	}
	return c
}

// Find implements [shim.Maker].
func (n *Node) Find(context.Context) (shim.Found, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	var f shim.Found
	for _, number := range n.numbers() {
		r := n.shims[number]
		select {
		case <-r.done:
			d := shim.Dead{Launch: r.shim.Launch(), Last: r.last, Forget: func() error {
				n.forget(number)
				return nil
			}}
			d.Continue(r.shim.Newest())
			f.Dead = append(f.Dead, d)
		default:
			f.Live = append(f.Live, handle{n, r})
		}
	}
	return f, nil
}

func (n *Node) numbers() []uint64 {
	all := make([]uint64, 0, len(n.shims))
	for number := range n.shims {
		all = append(all, number)
	}
	slices.Sort(all)
	return all
}

func (n *Node) forget(number uint64) {
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.shims, number)
}

// handle is an agent's hold on a resident.
type handle struct {
	node *Node
	r    *resident
}

func (h handle) gone() error {
	select {
	case <-h.r.done:
		return shim.ErrGone
	default:
		return nil
	}
}

// Launch implements [shim.Handle].
func (h handle) Launch() shim.Launch { return h.r.shim.Launch() }

// Status implements [shim.Handle].
func (h handle) Status(ctx context.Context, after uint64) (shim.Status, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(h.r.life, cancel)() // a shim that dies has no newer status
	st := h.r.shim.Status(ctx, after)
	if h.r.life.Err() != nil {
		<-h.r.done
	}
	return st, h.gone()
}

// Order implements [shim.Handle].
func (h handle) Order(_ context.Context, o shim.Order) error {
	if err := h.gone(); err != nil {
		return err
	}
	return h.r.shim.Order(o)
}

// Reading implements [shim.Handle].
func (h handle) Reading(context.Context) (wire.Reading, error) {
	if err := h.gone(); err != nil {
		return wire.Reading{}, err
	}
	return h.r.shim.Reading()
}

// Logs implements [shim.Handle].
func (h handle) Logs(_ context.Context, tail int, follow bool) (io.ReadCloser, error) {
	return h.r.shim.Output().Reader(tail, follow), nil
}

// Kill implements [shim.Handle]. It is also how a test lets a shim die.
func (h handle) Kill(ctx context.Context) error {
	h.r.end()
	select {
	case <-h.r.done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Close implements [shim.Handle].
func (h handle) Close(ctx context.Context) error {
	if err := h.r.shim.Closable(); err != nil {
		return err
	}
	if err := h.Kill(ctx); err != nil {
		return err
	}
	h.node.forget(h.Launch().Shim)
	return nil
}
