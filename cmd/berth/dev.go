package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"

	"github.com/spf13/cobra"

	"berth/consensus/raftmetrics"
	"berth/dev"
	"berth/internal/ops"
	"berth/internal/run"
)

func devCmd() *cobra.Command {
	var level, format string
	var peers, nodes, routers, gpus int
	c := &cobra.Command{
		Use: "dev", Short: "run a whole cluster in this process, for a first look", Args: cobra.NoArgs,
		Long: "Run a whole cluster in this process, on loopback: peers, nodes with simulated GPUs and engines, routers. Everything is forgotten at the end.",
		RunE: func(c *cobra.Command, _ []string) error {
			log, out, err := ops.Logger(c.ErrOrStderr(), level, format)
			if err != nil {
				return usageError{err}
			}
			defer out.Close()
			dir, err := os.MkdirTemp("", "berth-dev-")
			if err != nil {
				return err
			}
			defer os.RemoveAll(dir)
			if err := raftmetrics.Off(log); err != nil {
				return err
			}
			cfg := dev.Small(dir, log)
			cfg.Peers, cfg.Nodes, cfg.Routers, cfg.GPUs = peers, nodes, routers, gpus
			return runDev(c, cfg, log)
		},
	}
	c.Flags().IntVar(&peers, "peers", 3, "how many peers: 1, 3 or 5")
	c.Flags().IntVar(&nodes, "nodes", 4, "how many nodes, two on each fabric")
	c.Flags().IntVar(&gpus, "gpus", 8, "how many simulated GPUs a node")
	c.Flags().IntVar(&routers, "routers", 2, "how many routers")
	c.Flags().StringVar(&level, "log-level", "error", "debug, info, warn or error")
	c.Flags().StringVar(&format, "log-format", ops.FormatText, "text or json")
	return c
}

func runDev(c *cobra.Command, cfg dev.Config, log *slog.Logger) error {
	if cfg.Peers != 1 && cfg.Peers != 3 && cfg.Peers != 5 || cfg.Nodes < 0 || cfg.Routers < 0 || cfg.GPUs < 0 || cfg.GPUs > 64 || cfg.Nodes > 64 || cfg.Routers > 16 {
		return usageError{errors.New("a cluster here has 1, 3 or 5 peers, at most 64 nodes of at most 64 GPUs, and at most 16 routers")}
	}
	ctx, stop := run.Signals(c.Context())
	defer stop()
	cluster, err := dev.Start(context.WithoutCancel(ctx), cfg) // ended in order by Close, not all at once by the signal
	if err != nil {
		return err
	}
	defer cluster.Close()
	introduce(c, cluster, cfg)
	err = cluster.Wait(ctx)
	fmt.Fprintln(c.ErrOrStderr(), "stopping")
	return err
}

func introduce(c *cobra.Command, cluster *dev.Cluster, cfg dev.Config) {
	w := c.OutOrStdout()
	fmt.Fprintf(w, "A cluster of %d peers, %d nodes with %d simulated %s each, and %d routers. Ctrl-C ends it and cleans up.\n\n", cfg.Peers, cfg.Nodes, cfg.GPUs, cfg.Class, cfg.Routers)
	for _, u := range cluster.PeerURLs() {
		fmt.Fprintf(w, "  peer    %s\n", u)
	}
	for _, u := range cluster.RouterURLs() {
		fmt.Fprintf(w, "  router  %s\n", u)
	}
	addr := ""
	if url := cluster.PeerURLs()[0]; url != "http://127.0.0.1:7300" {
		addr = " --addr " + url
	}
	fmt.Fprintf(w, "\nTry next, in another terminal:\n\n  berthctl%s model apply -f examples/sim\n  berthctl%s status\n", addr, addr)
	if urls := cluster.RouterURLs(); len(urls) > 0 {
		fmt.Fprintf(w, "  curl -N %s/chat/completions -d '{\"model\":\"llama-8b\",\"stream\":true,\"messages\":[{\"role\":\"user\",\"content\":\"Hello\"}]}'\n", urls[0])
	}
	fmt.Fprintln(w, "\nSeveral peers share this process, so the raft and gossip libraries' own figures are off in /metrics.")
}
