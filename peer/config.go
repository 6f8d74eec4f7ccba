package peer

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"time"

	"berth/consensus"
	"berth/fleet"
	"berth/internal/listen"
	"berth/internal/ops"
)

// Endpoint is one port of a peer: where it listens, and where others reach it.
type Endpoint struct {
	Bind      string // host:port
	Advertise string // host:port; empty: Bind, which must then name a host that others can reach
}

// address is where others reach the endpoint; empty if that is known only once it listens, on a port that the machine chooses.
func (e Endpoint) address() string {
	if e.Advertise != "" {
		return e.Advertise
	}
	if _, port, err := net.SplitHostPort(e.Bind); err == nil && port == "0" {
		return ""
	}
	return e.Bind
}

// reached is where others reach the endpoint that listens at bound.
func (e Endpoint) reached(bound net.Addr) string {
	if addr := e.address(); addr != "" {
		return addr
	}
	return bound.String()
}

// Default ports of a peer.
const (
	PortHTTP   = 7300
	PortRaft   = 7301
	PortGossip = 7302
)

// Config says what a peer is made of.
type Config struct {
	// Name identifies this peer in the cluster for all time.
	Name string
	// DataDir holds log, snapshots and identity. It must be empty exactly when InMemory is set.
	DataDir string
	// LogStore is how the log is kept in it: consensus.LogWAL, consensus.LogBolt, or empty: as the directory holds it, LogWAL in a new one.
	LogStore string
	// InMemory keeps everything in memory and forgets it at the end: for tests and for a cluster inside one process.
	InMemory bool

	HTTP, Raft, Gossip Endpoint
	// Join are gossip addresses of peers or agents; one that answers is enough, and this peer's own does no harm.
	Join []string
	// GossipKeys encrypt gossip; the first one encrypts, all decrypt. Empty: in the clear.
	GossipKeys [][]byte
	// BootstrapExpect is how many peers begin a cluster together; 0 only joins one that exists.
	BootstrapExpect int

	// LeaveOnTerminate takes this peer out of the cluster when it is told to stop, if the others can do without it. It is for peers that do not come
	// back: after it the data directory is of no use.
	LeaveOnTerminate bool
	// Backups is the schedule of snapshots.
	Backups Backups
	// Ballast is the size in bytes of a file that is given up when the disk is full; 0: none.
	Ballast int64

	Policy  listen.Policy
	Network listen.Network // nil: the machine's
	Timings consensus.Timings
	// Clock is time since some start that goes on while the machine is suspended; nil: BootClock.
	Clock   func() time.Duration
	Log     *slog.Logger
	Ops     *ops.Ops // nil: one of its own
	Version string   // of the release, for operators
	// Fatal is told why this peer must not go on, before Run returns; a process ends itself in it. May be nil.
	Fatal func(error)
	// BeforeWrite is called before each write of log, term or vote, and may block or fail: how tests make a disk slow, stuck or full. May be nil.
	BeforeWrite func() error
	// Resolve looks names of Join up; nil: the machine's resolver.
	Resolve func(ctx context.Context, host string) ([]string, error)
}

func (c Config) withDefaults() Config {
	if c.Network == nil {
		c.Network = listen.System
	}
	if c.Clock == nil {
		c.Clock = BootClock
	}
	c.Backups = c.Backups.withDefaults()
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	if c.Ops == nil {
		c.Ops = ops.New(ops.Build{Role: "peer", Version: c.Version})
	}
	return c
}

// Validate lists everything that is wrong, in one error.
func (c Config) Validate() error {
	var errs []error
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if err := fleet.CheckName("peer", c.Name); err != nil {
		bad("--name: %w", err)
	}
	switch {
	case c.InMemory && c.DataDir != "":
		bad("--data-dir %s is of no use to a peer that keeps everything in memory", c.DataDir)
	case !c.InMemory && c.DataDir == "":
		bad("--data-dir is empty; a peer keeps its log there")
	}
	if c.LogStore != "" && c.LogStore != consensus.LogWAL && c.LogStore != consensus.LogBolt {
		bad("--log-store is %q; write %s or %s, or leave it out", c.LogStore, consensus.LogWAL, consensus.LogBolt)
	}
	errs = append(errs, c.HTTP.check("--bind"), c.Raft.check("--raft-bind"), c.Gossip.check("--gossip-bind"))
	if err := c.Backups.check(); err != nil {
		errs = append(errs, err)
	}
	if c.BootstrapExpect < 0 {
		bad("--bootstrap-expect is %d; write 1, 3 or 5, or 0 to join a cluster that exists", c.BootstrapExpect)
	}
	if c.BootstrapExpect != 1 && len(c.Join) == 0 {
		bad("--join names nobody: this peer could find no other (a cluster of one has --bootstrap-expect 1)")
	}
	clear := []string{c.HTTP.Bind, c.Raft.Bind}
	if len(c.GossipKeys) == 0 {
		clear = append(clear, c.Gossip.Bind)
	}
	for _, addr := range clear {
		if err := c.Policy.Check(addr); errors.Is(err, listen.ErrExposed) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

func (e Endpoint) check(flag string) error {
	if _, _, err := net.SplitHostPort(e.Bind); err != nil {
		return fmt.Errorf("%s %q is not host:port: %w", flag, e.Bind, err)
	}
	shown := e.Bind
	if e.Advertise != "" {
		shown = e.Advertise
	}
	host, _, err := net.SplitHostPort(shown)
	if err != nil {
		return fmt.Errorf("the advertised address %q for %s is not host:port: %w", e.Advertise, flag, err)
	}
	if ip := net.ParseIP(host); host == "" || ip != nil && ip.IsUnspecified() {
		return fmt.Errorf("%s %s listens on every address; say with --advertise which one others reach", flag, e.Bind)
	}
	return nil
}
