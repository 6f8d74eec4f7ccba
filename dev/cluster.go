package dev

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"

	"berth/consensus"
	"berth/internal/listen"
	"berth/internal/run"
)

// Cluster is a running cluster. Its machines can be stopped and started one by one.
type Cluster struct {
	cfg    Config
	policy listen.Policy
	ports  []peerPorts
	router []routerPorts

	ctx context.Context
	end context.CancelFunc

	mu       sync.Mutex
	machines map[string]*box
	agents   map[string]context.CancelCauseFunc // by machine
	failed   chan error
}

type routerPorts struct{ clients, ops string }

// box is a machine of the cluster and the role that runs on it.
type box struct {
	stop context.CancelFunc
	done chan struct{}
	err  error
}

// Start starts a cluster. Its owner calls Close.
func Start(ctx context.Context, cfg Config) (*Cluster, error) {
	cfg.Network = oneAtATime(cfg.Network)
	c := &Cluster{cfg: cfg, policy: listen.Policy{InsecureNoTLS: cfg.Network != nil}, machines: map[string]*box{}, agents: map[string]context.CancelCauseFunc{}, failed: make(chan error, 1)}
	c.ctx, c.end = context.WithCancel(ctx)
	if err := c.choosePorts(); err != nil {
		c.end()
		return nil, err
	}
	var names []string
	for i := range cfg.Peers {
		names = append(names, machine("peer", i))
	}
	for i := range cfg.Nodes {
		names = append(names, machine("node", i))
	}
	for i := range cfg.Routers {
		names = append(names, machine("router", i))
	}
	for _, name := range names {
		if err := c.StartMachine(name); err != nil {
			c.Close()
			return nil, err
		}
	}
	return c, nil
}

// oneAtATime lets machines that start at once ask a caller's function for their networks one after the other.
func oneAtATime(network func(machine, ip string) listen.Network) func(machine, ip string) listen.Network {
	if network == nil {
		return nil
	}
	var mu sync.Mutex
	return func(machine, ip string) listen.Network {
		mu.Lock()
		defer mu.Unlock()
		return network(machine, ip)
	}
}

func (c *Cluster) choosePorts() error {
	for i := range c.cfg.Peers {
		name := machine("peer", i)
		want := []int{0, 0, 0}
		if i == 0 || c.cfg.Network != nil {
			want = []int{7300, 7301, 7302}
		}
		var got [3]string
		for k, port := range want {
			var err error
			if got[k], err = c.cfg.address(c.ctx, name, port); err != nil {
				return err
			}
		}
		c.ports = append(c.ports, peerPorts{got[0], got[1], got[2]})
	}
	for i := range c.cfg.Routers {
		clients, ops := 0, 0
		if i == 0 || c.cfg.Network != nil {
			clients, ops = 7380, 7381
		}
		a, err := c.cfg.address(c.ctx, machine("router", i), clients)
		if err != nil {
			return err
		}
		b, err := c.cfg.address(c.ctx, machine("router", i), ops)
		if err != nil {
			return err
		}
		c.router = append(c.router, routerPorts{a, b})
	}
	return nil
}

// PeerURLs are the peers' HTTP addresses, and RouterURLs the routers' for clients.
func (c *Cluster) PeerURLs() []string {
	var urls []string
	for _, p := range c.ports {
		urls = append(urls, "http://"+p.http)
	}
	return urls
}

// RouterURLs are the base URLs that OpenAI clients take.
func (c *Cluster) RouterURLs() []string {
	var urls []string
	for _, r := range c.router {
		urls = append(urls, "http://"+r.clients+"/v1")
	}
	return urls
}

// seeds are the gossip addresses of all peers.
func (c *Cluster) seeds() []string {
	var out []string
	for _, p := range c.ports {
		out = append(out, p.gossip)
	}
	return out
}

// StartMachine starts a machine of the cluster, "peer-1", "node-2" or "router-1", that does not run.
func (c *Cluster) StartMachine(name string) error {
	role, err := c.role(name)
	if err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.machines[name] != nil {
		return fmt.Errorf("%s runs already", name)
	}
	ctx, stop := context.WithCancel(c.ctx)
	b := &box{stop: stop, done: make(chan struct{})}
	c.machines[name] = b
	go func() { // joined by StopMachine and Close
		defer close(b.done)
		if b.err = role(ctx); b.err != nil && ctx.Err() == nil && !errors.Is(b.err, consensus.ErrRemoved) {
			select {
			case c.failed <- fmt.Errorf("%s: %w", name, b.err):
			default:
			}
		}
	}()
	return nil
}

// StopMachine ends a machine's role in order and waits for it.
func (c *Cluster) StopMachine(name string) error {
	c.mu.Lock()
	b := c.machines[name]
	delete(c.machines, name)
	c.mu.Unlock()
	if b == nil {
		return fmt.Errorf("%s does not run", name)
	}
	b.stop()
	<-b.done
	return nil
}

// Wait waits until the context ends or a machine fails by itself.
func (c *Cluster) Wait(ctx context.Context) error {
	select {
	case err := <-c.failed:
		return err
	case <-ctx.Done():
		return nil
	}
}

// Close ends everything and waits for it: routers first, so that they report what they saw, then the nodes, then the peers.
func (c *Cluster) Close() {
	for _, role := range []string{"router", "node", "peer"} {
		g := run.NewGroup(context.Background())
		c.mu.Lock()
		for name := range c.machines {
			if strings.HasPrefix(name, role) {
				g.Add(name, func(context.Context) error { return c.StopMachine(name) })
			}
		}
		c.mu.Unlock()
		_ = g.Wait() // a machine that was stopped meanwhile is what was wanted
	}
	c.end()
}
