package agent

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"sync"

	"berth/internal/listen"
	"berth/internal/ops"
	"berth/internal/run"
)

// Agent is the role of a GPU node.
type Agent struct {
	cfg   Config
	ops   *ops.Ops
	meter *meter

	mu   sync.Mutex
	addr string // that the agent's HTTP is bound to; empty before that
}

// New makes an agent from a configuration; [Agent.Run] is its life. Nothing is touched yet.
func New(c Config) (*Agent, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	a := &Agent{cfg: c.withDefaults(), ops: ops.New(ops.Build{Role: "agent", Version: c.Release})}
	a.meter = newMeter(a.ops.Registry())
	return a, nil
}

// Addr is what the agent's HTTP is bound to; empty before that.
func (a *Agent) Addr() string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.addr
}

// address is where peers reach the agent.
func (a *Agent) address() string {
	if a.cfg.Advertise != "" {
		return a.cfg.Advertise
	}
	return a.Addr()
}

// Run takes the data directory, finds what runs on the machine, and works until the context ends. Shims and engines go on after it, unless
// StopEnginesOnExit is set. It runs once.
func (a *Agent) Run(ctx context.Context) (err error) {
	d, err := openDisk(a.cfg.DataDir)
	if err != nil {
		return fmt.Errorf("agent %s: %w", a.cfg.Name, err)
	}
	defer func() { err = errors.Join(err, d.close()) }()
	p, err := a.assemble(d)
	if err != nil {
		return fmt.Errorf("agent %s: %w", a.cfg.Name, err)
	}
	defer func() { _ = os.Remove(p.sockets) }() // fails, as it should, while an engine that goes on has its socket there
	if err := p.crew.adopt(ctx); err != nil {
		return fmt.Errorf("agent %s: find the shims that run here: %w", a.cfg.Name, err)
	}
	ln, err := a.cfg.Policy.Listen(ctx, a.cfg.Network, listen.Spec{Addr: a.cfg.Bind, Flag: "--bind"})
	if err != nil {
		return err
	}
	a.mu.Lock()
	a.addr = ln.Addr().String()
	a.mu.Unlock()
	a.cfg.Logger.Info("agent started", "node", a.cfg.Name, "id", d.id, "instance", d.instance, "address", a.Addr())
	return p.live(ctx, ln)
}

// parts is a running agent.
type parts struct {
	*Agent
	disk     *disk
	sockets  string // folder for engines' sockets
	machine  *machine
	crew     *crew
	outbox   *outbox
	reg      *registrar
	follower *follower
	pulse    *pulse
}

func (a *Agent) assemble(d *disk) (*parts, error) {
	c := &a.cfg
	contact := newContact()
	reg := newRegistrar(c, d, contact, a.address)
	m, err := newMachine(c, d, reg.look)
	if err != nil {
		return nil, err
	}
	shop, err := newWorkshop(c, d, m)
	if err != nil {
		return nil, err
	}
	out := &outbox{node: c.Name, disk: d, peers: c.Peers, reg: reg, meter: a.meter, log: c.Logger, poke: make(chan struct{}, 1)}
	crew := newCrew(c, &bench{maker: c.Maker, shop: shop, machine: m, outbox: out, disk: d, contact: contact, meter: a.meter, log: c.Logger}, reg.look)
	reg.machine, reg.crew = m, crew
	a.ops.Registry().MustRegister(newShards(crew))
	a.ops.Ready("registered", func(context.Context) error {
		if !reg.isRegistered() {
			return ops.ErrNotYet
		}
		return nil
	})
	return &parts{
		Agent: a, disk: d, sockets: shop.sockets, machine: m, crew: crew, outbox: out, reg: reg,
		follower: &follower{cfg: c, disk: d, crew: crew, contact: contact, reg: reg, meter: a.meter, log: c.Logger},
		pulse:    &pulse{cfg: c, disk: d, machine: m, crew: crew, contact: contact, reg: reg, meter: a.meter, log: c.Logger},
	}, nil
}

func (p *parts) live(ctx context.Context, ln net.Listener) error {
	g := run.NewGroup(ctx)
	g.Add("http", func(ctx context.Context) error {
		return listen.ServeHTTP(ctx, ln, p.handler(), listen.ServerOptions{Log: p.cfg.Logger})
	})
	g.Add("listeners in the clear", func(ctx context.Context) error {
		return p.cfg.Policy.Warn(ctx, p.cfg.Logger, p.Addr(), net.JoinHostPort(p.cfg.EngineBind, "0"))
	})
	g.Add("inventory", p.machine.watchInventory)
	g.Add("engines on offer", p.machine.watchOffers)
	g.Add("load of the cards", p.machine.watchLoads)
	g.Add("shards", p.crew.run)
	g.Add("registration", p.reg.run)
	g.Add("orders", p.follower.run)
	g.Add("transitions", p.outbox.run)
	g.Add("heartbeat", p.pulse.run)
	g.Add("old logs", (&sweeper{root: p.cfg.Logs, crew: p.crew, log: p.cfg.Logger}).run)
	if p.cfg.Companion != nil {
		self := Self{ID: p.disk.id, Instance: p.disk.instance, Address: p.address(), Cluster: p.disk.cluster()}
		g.Add("companion", func(ctx context.Context) error { return p.cfg.Companion(ctx, self) })
	}
	return g.Wait()
}
