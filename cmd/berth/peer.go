package main

import (
	"context"
	"log/slog"
	"net"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"berth/consensus"
	"berth/consensus/raftmetrics"
	"berth/internal/release"
	"berth/peer"
)

// ballast is what a peer keeps aside for a full disk: enough for terms and votes for years.
const ballast = 64 << 20

// multiplier is for peers within some milliseconds of each other, on machines that may be busy: see docs/adr/0009.
const multiplier = 0.35

type peerFlags struct {
	*common
	raft, gossip peer.Endpoint
	expect       int
	multiplier   float64
	backups      peer.Backups
	leave        bool
	logStore     string
}

func peerCmd() *cobra.Command {
	f := &peerFlags{common: newCommon("peer")}
	c := &cobra.Command{
		Use: "peer", Short: "run one server of the control plane", Args: cobra.NoArgs,
		Long: "Run one server of the control plane. Three or five of them form a cluster; start each with the same --bootstrap-expect and --join.\n" +
			"One alone is for development: --bootstrap-expect 1.",
		RunE: func(c *cobra.Command, _ []string) error {
			cfg, err := f.resolve(c)
			if err != nil {
				return err
			}
			figures, err := raftmetrics.Install()
			if err != nil {
				return err
			}
			cfg.Ops.Registry().MustRegister(figures)
			return f.run(c, cfg.Ops, func(ctx context.Context, log *slog.Logger) error {
				cfg.Log, cfg.Fatal = log, fatal(log)
				p, err := peer.New(cfg)
				if err != nil {
					return err
				}
				return p.Run(ctx)
			})
		},
	}
	f.add(c)
	c.AddCommand(recoverCmd())
	return c
}

func (f *peerFlags) add(c *cobra.Command) {
	f.flags(c, "127.0.0.1:7300")
	s := c.Flags()
	s.StringVar(&f.raft.Bind, "raft-bind", "", "raft address to listen on (default: the host of --bind, port 7301)")
	s.StringVar(&f.gossip.Bind, "gossip-bind", "", "gossip address to listen on, TCP and UDP (default: the host of --bind, port 7302)")
	s.IntVar(&f.expect, "bootstrap-expect", 0, "begin a cluster once this many peers see each other; 0 joins one that exists")
	s.BoolVar(&f.leave, "leave-on-terminate", false, "leave the cluster when told to stop, for good; for peers that do not come back")
	s.StringVar(&f.backups.Dir, "backup-dir", "", "save snapshots in this folder by a schedule, each read back; empty: none")
	s.DurationVar(&f.backups.Every, "backup-every", time.Hour, "time between two of them")
	s.IntVar(&f.backups.Keep, "backup-keep", 24, "how many of its own this peer keeps there")
	s.StringVar(&f.logStore, "log-store", "", "how the log is kept on disk, wal or boltdb (default: as the data directory has it, wal in a new one)")
	s.Float64Var(&f.multiplier, "raft-multiplier", multiplier, "scales raft's timeouts, of which 1 is a second: a leader is missed after 1 to 2 of them (0.1 to 10; more for a slow network)")
}

// resolve fills the flags from all sources and checks the whole.
func (f *peerFlags) resolve(c *cobra.Command) (peer.Config, error) {
	if err := f.settings(c); err != nil {
		return peer.Config{}, err
	}
	if f.raft.Bind == "" {
		f.raft.Bind = net.JoinHostPort(hostPart(f.bind), strconv.Itoa(peer.PortRaft))
	}
	if f.gossip.Bind == "" {
		f.gossip.Bind = net.JoinHostPort(hostPart(f.bind), strconv.Itoa(peer.PortGossip))
	}
	cfg := peer.Config{
		Name: f.name, DataDir: f.dataDir, LogStore: f.logStore, Join: f.join, BootstrapExpect: f.expect,
		HTTP:   peer.Endpoint{Bind: f.bind, Advertise: f.advertised(f.bind)},
		Raft:   peer.Endpoint{Bind: f.raft.Bind, Advertise: hostOf(f.advertise, f.raft.Bind)},
		Gossip: peer.Endpoint{Bind: f.gossip.Bind, Advertise: hostOf(f.advertise, f.gossip.Bind)},
		Policy: f.policy(), Timings: consensus.Timings{Multiplier: f.multiplier}, Ops: f.ops(), Version: release.Version, Ballast: ballast, Backups: f.backups, LeaveOnTerminate: f.leave,
	}
	if err := cfg.Validate(); err != nil {
		return cfg, usageError{err}
	}
	return cfg, nil
}
