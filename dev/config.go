package dev

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"berth/agent/engine/sim"
	"berth/consensus"
	"berth/fleet"
	"berth/internal/listen"
)

// Config says how large the cluster is and on what it runs.
type Config struct {
	Peers, Nodes, Routers int
	GPUs                  int // a node
	Class                 string
	Memory                fleet.Bytes // a card
	NodesPerFabric        int
	// Dir holds what agents and routers keep; peers keep everything in memory, and a peer that is started again comes as one that has lost its disk,
	// unless PeersOnDisk is set.
	Dir         string
	PeersOnDisk bool
	// Network gives each machine of the cluster, by name and IP address, its network; it must give the same one for the same name. nil: the
	// machine's own, on loopback.
	Network func(machine, ip string) listen.Network
	// DefaultPorts lets the first peer and the first router take Berth's default ports where they are free, so that berthctl needs no flag.
	DefaultPorts bool
	// Engine is told of each start of a simulated engine, before it runs: of which replica, on which machine. May be nil.
	Engine  func(machine, replica string, e *sim.Engine)
	Timings consensus.Timings
	// Clock gives the clock of a machine: time since some start, which goes on while the machine is suspended. nil: each role's own.
	Clock func(machine string) func() time.Duration
	Log   *slog.Logger
}

// Small is the cluster of `berth dev`: three peers, four nodes with eight simulated H100s on two fabrics, two routers.
func Small(dir string, log *slog.Logger) Config {
	return Config{Peers: 3, Nodes: 4, Routers: 2, GPUs: 8, Class: "h100-sxm-80gb", Memory: 80 * fleet.GiB, NodesPerFabric: 2, Dir: dir, DefaultPorts: true, Log: log}
}

// machine names what runs alone on a machine of the cluster.
func machine(role string, i int) string { return fmt.Sprintf("%s-%d", role, i+1) }

func (c Config) network(machine string) listen.Network {
	if c.Network == nil {
		return listen.System
	}
	return c.Network(machine, c.host(machine))
}

func (c Config) dir(machine string) string { return filepath.Join(c.Dir, machine) }

// peerPorts are the addresses of one peer.
type peerPorts struct{ http, raft, gossip string }

// address finds a free port of a machine: the one that is asked for if it is free, any other one otherwise. Somebody else may take it before it is
// used; on a developer's machine that is rare, and the error then says so.
func (c Config) address(ctx context.Context, machine string, want int) (string, error) {
	network := c.network(machine)
	for _, port := range []int{want, 0} {
		if port == 0 || c.DefaultPorts || c.Network != nil {
			ln, err := network.Listen(ctx, net.JoinHostPort(c.host(machine), strconv.Itoa(port)))
			if err == nil {
				return ln.Addr().String(), ln.Close()
			}
		}
	}
	return "", fmt.Errorf("no free port on %s", c.host(machine))
}

// host is a machine's address: loopback on the machine's own network, a private address on one of the caller's.
func (c Config) host(machine string) string {
	if c.Network == nil {
		return "127.0.0.1"
	}
	role, number, _ := strings.Cut(machine, "-")
	return fmt.Sprintf("10.0.%d.%s", map[string]int{"peer": 1, "node": 2, "router": 3}[role], number)
}
