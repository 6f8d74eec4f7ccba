package dev

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strconv"
	"strings"
	"time"

	"berth/agent"
	"berth/agent/engine"
	"berth/agent/engine/sim"
	"berth/agent/gpu"
	"berth/agent/shim"
	"berth/agent/shim/inproc"
	"berth/fleet"
	"berth/fleet/wire"
	"berth/internal/listen"
	"berth/internal/release"
	"berth/peer"
	"berth/roles"
	"berth/router"
)

// role returns what runs on a machine.
func (c *Cluster) role(name string) (func(context.Context) error, error) {
	kind, number, _ := strings.Cut(name, "-")
	i, err := strconv.Atoi(number)
	i--
	switch {
	case err == nil && kind == "peer" && i >= 0 && i < c.cfg.Peers:
		return c.peer(i)
	case err == nil && kind == "node" && i >= 0 && i < c.cfg.Nodes:
		return func(ctx context.Context) error { return c.node(ctx, i) }, nil
	case err == nil && kind == "router" && i >= 0 && i < c.cfg.Routers:
		return func(ctx context.Context) error { return c.runRouter(ctx, i) }, nil
	}
	return nil, fmt.Errorf("there is no machine %s", name)
}

func (c *Cluster) log(name string) *slog.Logger { return c.cfg.Log.With("machine", name) }

func (c *Cluster) peer(i int) (func(context.Context) error, error) {
	name, p := machine("peer", i), c.ports[i]
	dir := ""
	if c.cfg.PeersOnDisk {
		dir = c.cfg.dir(name)
	}
	role, err := peer.New(peer.Config{
		Name: name, InMemory: dir == "", DataDir: dir, HTTP: peer.Endpoint{Bind: p.http}, Raft: peer.Endpoint{Bind: p.raft}, Gossip: peer.Endpoint{Bind: p.gossip},
		Join: c.seeds(), BootstrapExpect: c.cfg.Peers, Policy: c.policy, Network: c.cfg.network(name), Timings: c.cfg.Timings, Clock: c.clock(name),
		Log: c.log(name), Version: release.Version,
	})
	if err != nil {
		return nil, err
	}
	return role.Run, nil
}

func (c *Cluster) node(ctx context.Context, i int) error {
	name := machine("node", i)
	network := c.cfg.network(name)
	shims := inproc.NewNode(ctx, inproc.Config{
		Network: network, Policy: c.policy, Clock: c.clock(name), Engines: c.engines(name, network), Logger: c.log(name),
		CardsEmpty: func(context.Context, []fleet.Claim) (bool, error) { return true, nil },
	})
	defer shims.Close()
	driver, err := engine.New("sim", agent.EngineConfig{Command: []string{"true"}, AllowArgs: []string{"*"}, Hub: true, Version: "1.0"})
	if err != nil {
		return err
	}
	host := c.cfg.host(name)
	cfg := agent.Config{
		Name: name, DataDir: c.cfg.dir(name), Bind: net.JoinHostPort(host, "0"), Release: release.Version, EngineBind: host, EnginePorts: c.enginePorts(i),
		Engines:   map[string]agent.EngineConfig{"sim": {Command: []string{"true"}, AllowArgs: []string{"*"}, Hub: true}},
		Inventory: simulated{gpu.Fixed(name, fmt.Sprintf("fabric-%d", i/max(1, c.cfg.NodesPerFabric)+1), c.cfg.Class, c.cfg.Memory, c.cfg.GPUs)},
		Drivers:   []agent.Driver{driver}, Maker: shims, Network: network, Policy: c.policy, Logger: c.log(name),
	}
	for { // the machine and its shims outlive their agent
		alive, stop := context.WithCancelCause(ctx)
		c.setAgent(name, stop)
		err := roles.RunAgent(alive, cfg, roles.Join{Seeds: c.seeds(), Bind: net.JoinHostPort(host, "0")})
		var down restart
		if !errors.As(context.Cause(alive), &down) || ctx.Err() != nil {
			stop(nil)
			return err
		}
		select {
		case <-time.After(time.Duration(down)):
		case <-ctx.Done():
			return nil
		}
	}
}

// restart is why an agent is ended: to be started again after so long.
type restart time.Duration

func (restart) Error() string { return "the agent is restarted" }

// setAgent keeps what ends a machine's agent.
func (c *Cluster) setAgent(machine string, stop context.CancelCauseFunc) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.agents[machine] = stop
}

// RestartAgent ends the agent of a machine and starts it again after so long. Its shims and engines run on.
func (c *Cluster) RestartAgent(machine string, down time.Duration) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	stop := c.agents[machine]
	if stop == nil || c.machines[machine] == nil {
		return fmt.Errorf("no agent runs on %s", machine)
	}
	stop(restart(down))
	return nil
}

// enginePorts are apart for each node, for nodes that share a machine's loopback.
func (c *Cluster) enginePorts(i int) agent.PortRange {
	return agent.PortRange{First: 21000 + 200*i, Last: 21199 + 200*i}
}

func (c *Cluster) clock(machine string) func() time.Duration {
	if c.cfg.Clock != nil {
		return c.cfg.Clock(machine)
	}
	return peer.BootClock
}

func (c *Cluster) runRouter(ctx context.Context, i int) error {
	name, p := machine("router", i), c.router[i]
	cfg := router.Config{
		Name: name, DataDir: c.cfg.dir(name), Bind: p.clients, Ops: p.ops, Network: c.cfg.network(name), Policy: c.policy, Logger: c.log(name),
		Clock: c.clock(name), Drain: 5 * time.Second,
	}
	return roles.RunRouter(ctx, cfg, roles.Join{Seeds: c.seeds(), Bind: net.JoinHostPort(c.cfg.host(name), "0")})
}

// simulated is an inventory that never changes and whose cards nothing else uses.
type simulated struct{ inv fleet.Inventory }

func (s simulated) Measure(context.Context) (fleet.Inventory, error)  { return s.inv, nil }
func (s simulated) Free(context.Context, []fleet.Claim) (bool, error) { return true, nil }
func (s simulated) Load(context.Context) []wire.GPULoad               { return nil }

// engines makes a machine's simulated engines from the command lines of the sim driver.
func (c *Cluster) engines(machine string, network listen.Network) inproc.NewEngine {
	return func(x shim.Exec) (inproc.Engine, error) {
		cfg, err := sim.ParseArgs(x.Args[1:])
		if err != nil {
			return nil, err
		}
		cfg.Listen, cfg.Dial = network.Listen, network.Dial
		e, err := sim.New(cfg)
		if err == nil && c.cfg.Engine != nil {
			c.cfg.Engine(machine, replicaOf(x.Env), e)
		}
		return e, err
	}
}

// replicaOf reads the replica's id from an engine's environment.
func replicaOf(env []string) string {
	for _, e := range env {
		if id, ok := strings.CutPrefix(e, agent.EnvReplica+"="); ok {
			return id
		}
	}
	return ""
}
