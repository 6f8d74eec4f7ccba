package peer

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"berth/admin"
	"berth/consensus"
	"berth/fleet"
	"berth/fleet/wire"
	"berth/fsm"
	"berth/internal/durable"
	"berth/internal/listen"
	"berth/internal/ops"
	"berth/internal/run"
	"berth/peer/board"
)

// Peer is one control-plane server.
type Peer struct {
	cfg     Config
	machine *fsm.Machine
	board   *board.Board
	history *history
	started chan struct{}
	// gossip opens gossip; tests put their own in its place to say who is alive.
	gossip func(context.Context, Config, selfInfo) (gossiper, error)

	leaving atomic.Bool // and so its removal is no failure

	mu   sync.Mutex
	http string // address of the API once it listens
}

// New checks the configuration and makes a peer. It touches nothing; Run opens everything.
func New(c Config) (*Peer, error) {
	if err := c.Validate(); err != nil {
		return nil, fmt.Errorf("peer: %w", err)
	}
	c = c.withDefaults()
	machine := fsm.New()
	b := board.New(board.Config{Peer: c.Name, State: machine.State, Clock: c.Clock, Log: c.Log})
	return &Peer{cfg: c, machine: machine, started: make(chan struct{}), gossip: openGossip, board: b, history: newHistory(machine, b.Note)}, nil
}

// Started is closed when the API listens. A peer that cannot start returns from Run instead.
func (p *Peer) Started() <-chan struct{} { return p.started }

// HTTPAddr is the address on which the API listens; empty before Started.
func (p *Peer) HTTPAddr() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.http
}

// State is the state that this peer has applied. Tests compare its fingerprint.
func (p *Peer) State() *fsm.State { return p.machine.State() }

// Run is the life of the peer, once. At the end of the context it hands leadership over, lets requests finish, leaves gossip and returns nil. An
// error says why it could not start or must not go on.
//
// It ends from the outside in: what asks for writes is joined before the log that they go to is closed.
func (p *Peer) Run(ctx context.Context) error {
	parts, err := p.open(ctx)
	if err != nil {
		return fmt.Errorf("peer %s: %w", p.cfg.Name, err)
	}
	g := run.NewGroup(context.WithoutCancel(ctx))
	g.Add("consensus", parts.core.node.Run)
	g.Add("gossip", parts.gossip.Run)
	g.Add("service", func(alive context.Context) error { return parts.serve(alive, ctx) })
	if err = g.Wait(); p.leaving.Load() && errors.Is(err, consensus.ErrRemoved) {
		err = nil
	}
	parts.transport.CloseIdleConnections()
	return err
}

// parts is everything that runs in a peer.
type parts struct {
	cfg       Config
	core      *core
	ln        net.Listener
	api       *admin.Server
	gossip    gossiper
	roster    *roster
	transport *http.Transport
	follower  *follower
	entrance  *entrance
	care      *care
	leader    *leader
	history   *history
	leaving   *atomic.Bool
}

// open takes the data directory and the ports. On an error nothing stays open.
func (p *Peer) open(ctx context.Context) (_ *parts, err error) {
	node, err := consensus.Open(p.consensusConfig())
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, node.Close())
		}
	}()
	instance, err := p.instance()
	if err != nil {
		return nil, err
	}
	ln, err := p.cfg.Policy.Listen(ctx, p.cfg.Network, listen.Spec{Addr: p.cfg.HTTP.Bind, Flag: "--bind"})
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, ln.Close())
		}
	}()
	gossip, err := p.gossip(ctx, p.cfg, selfInfo{
		instance: instance, cluster: node.Cluster(), http: p.cfg.HTTP.reached(ln.Addr()), raft: node.Address(),
	})
	if err != nil {
		return nil, err
	}
	p.announce(ln.Addr().String())
	return p.wire(node, ln, gossip), nil
}

func (p *Peer) announce(addr string) {
	p.mu.Lock()
	p.http = addr
	p.mu.Unlock()
	close(p.started)
}

func (p *Peer) consensusConfig() consensus.Config {
	c := p.cfg
	return consensus.Config{
		ID: c.Name, DataDir: c.DataDir, LogStore: c.LogStore, Network: c.Network, Policy: c.Policy, Bind: c.Raft.Bind, Advertise: c.Raft.address(),
		Machine: p.machine, Log: c.Log, Timings: c.Timings, Fatal: p.fatal, BeforeWrite: c.BeforeWrite, Ballast: c.Ballast,
	}
}

// fatal passes on why this peer must not go on, unless it is what it has asked for.
func (p *Peer) fatal(err error) {
	if p.cfg.Fatal != nil && !(p.leaving.Load() && errors.Is(err, consensus.ErrRemoved)) {
		p.cfg.Fatal(err)
	}
}

// instance counts the starts of this peer.
func (p *Peer) instance() (uint64, error) {
	if p.cfg.InMemory {
		return uint64(time.Now().UnixNano()), nil
	}
	return durable.NextCounter(filepath.Join(p.cfg.DataDir, "starts.json"))
}

// wire joins the parts. The API is told of them by the four interfaces that it declares.
func (p *Peer) wire(node *consensus.Node, ln net.Listener, g gossiper) *parts {
	c := p.cfg
	r := &roster{living: g.living}
	co := &core{node: node, machine: p.machine, httpOf: r.httpOf}
	mem := &members{core: co, roster: r}
	transport := listen.Transport(c.Network)
	client := &http.Client{Transport: transport}
	self := fleet.Server{ID: c.Name, HTTP: c.HTTP.reached(ln.Addr()), Raft: node.Address(), MaxLevel: fsm.Level, Version: c.Version}
	ca := &care{log: c.Log, dir: c.DataDir, use: node.DiskUse, backups: &backups{
		Backups: c.Backups, log: c.Log, peer: c.Name, state: p.machine.State, caught: node.CaughtUp, began: time.Now(),
	}}
	observe(c.Ops, co, ca)
	return &parts{
		cfg: c, core: co, ln: ln, gossip: g, roster: r, transport: transport,
		api: admin.New(admin.Config{
			Core: co, Board: p.board, Members: mem, Snapshots: node, Planner: &explainer{state: p.machine.State, board: p.board},
			Ops: c.Ops.Handler(), Transport: transport, Version: c.Version, Log: c.Log,
		}),
		follower: &follower{log: c.Log, core: co, board: p.board, clock: c.Clock, alive: r.alive, http: client, care: ca},
		care:     ca,
		entrance: &entrance{log: c.Log, core: co, self: self, http: client, add: mem.AddPeer, others: co.others(r)},
		leader:   &leader{log: c.Log, core: co, board: p.board, roster: r, clock: c.Clock, care: ca},
		history:  p.history,
		leaving:  &p.leaving,
	}
}

// serve runs everything that needs consensus and gossip, while those are alive, until stop is done.
func (p *parts) serve(alive, stop context.Context) error {
	g := run.NewGroup(alive)
	g.Add("http", func(ctx context.Context) error {
		return listen.ServeHTTP(ctx, p.ln, p.api, listen.ServerOptions{H2C: true, Log: p.cfg.Log})
	})
	g.Add("summary", p.api.Run)
	g.Add("cluster", p.cluster)
	g.Add("follower", p.follower.run)
	g.Add("history", p.history.run)
	g.Add("care", p.care.run)
	g.Add("backups", p.care.backups.run)
	g.Add("gossip events", p.gossipEvents)
	g.Add("warnings", func(ctx context.Context) error {
		return p.cfg.Policy.Warn(ctx, p.cfg.Log, p.cfg.HTTP.Bind, p.cfg.Raft.Bind, p.cfg.Gossip.Bind)
	})
	g.Add("stop", func(ctx context.Context) error {
		select {
		case <-stop.Done():
			p.handOver(ctx)
			if p.cfg.LeaveOnTerminate {
				p.leave(ctx)
			}
		case <-ctx.Done():
		}
		return nil
	})
	return g.Wait()
}

// gossipEvents puts what gossip wants an operator to see into this peer's history.
func (p *parts) gossipEvents(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case e := <-p.gossip.Events():
			p.history.note(wire.Event{At: fleet.TimeOf(time.Now()), Kind: "gossip", Who: p.cfg.Name, Text: e.Text})
		}
	}
}

// cluster is this peer's way into a cluster, and then its place in it.
func (p *parts) cluster(ctx context.Context) error {
	if err := p.core.node.Bootstrap(ctx, p.cfg.BootstrapExpect, p.roster.candidates); err != nil {
		if ctx.Err() != nil {
			return nil
		}
		return err
	}
	if err := p.gossip.joined(p.core.node.Cluster()); err != nil {
		return err
	}
	g := run.NewGroup(ctx)
	g.Add("entrance", p.entrance.run)
	g.Add("lead", func(ctx context.Context) error { return p.core.node.Lead(ctx, p.leader.lead) })
	return g.Wait()
}

// observe adds this peer's checks and figures to its operator's side.
func observe(o *ops.Ops, c *core, ca *care) {
	o.Ready("caught up", func(context.Context) error {
		if !c.node.CaughtUp() {
			return errors.New("this peer has not caught up with the cluster since its start")
		}
		return nil
	})
	o.Ready("leader", func(context.Context) error {
		if _, _, ok := c.node.Leader(); !ok {
			return errors.New("no leader is known")
		}
		return nil
	})
	o.Registry().MustRegister(figures(c)...)
	o.Registry().MustRegister(careFigures(ca)...)
}
