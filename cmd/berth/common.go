package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"berth/internal/listen"
	"berth/internal/ops"
	"berth/internal/release"
	"berth/internal/run"
)

// common is what every role has: where it keeps its data, how it is named and reached, and how it logs.
type common struct {
	role      string
	config    string
	name      string
	dataDir   string
	bind      string
	advertise string
	logLevel  string
	logFormat string
	insecure  bool
	join      []string
}

func newCommon(role string) *common { return &common{role: role} }

// flags adds the flags that all roles share. bind is the default address of the role's HTTP port.
func (p *common) flags(c *cobra.Command, bind string) {
	f := c.Flags()
	f.StringVar(&p.config, "config", "", "configuration file; flags and BERTH_… variables win over it")
	f.StringVar(&p.name, "name", hostName(), "name of this "+p.role+", unique in the cluster")
	f.StringVar(&p.dataDir, "data-dir", dataDir(p.role), "where it keeps its data")
	f.StringVar(&p.bind, "bind", bind, "HTTP address to listen on")
	f.StringVar(&p.advertise, "advertise", "", "host or host:port at which others reach it (default: the bind address)")
	f.StringVar(&p.logLevel, "log-level", "info", "debug, info, warn or error")
	f.StringVar(&p.logFormat, "log-format", ops.FormatText, "text or json")
	f.BoolVar(&p.insecure, strings.TrimPrefix(listen.InsecureFlag, "--"), false, "listen on addresses beyond loopback without TLS")
	f.StringSliceVar(&p.join, "join", nil, "gossip address of a member to find the others by, HOST[:7302]; repeats")
}

// settings fills the flags from variables and the configuration file.
func (p *common) settings(c *cobra.Command, other ...string) error {
	s := settings{flags: c.Flags(), file: p.config, other: map[string]bool{}}
	for _, field := range other {
		s.other[field] = true
	}
	if err := s.resolve(); err != nil {
		return err
	}
	return nil
}

func (p *common) policy() listen.Policy { return listen.Policy{InsecureNoTLS: p.insecure} }

func (p *common) ops() *ops.Ops { return ops.New(ops.Build{Role: p.role, Version: release.Version}) }

// advertised is the address for others: --advertise, with the port of bind if it names none; "" when nothing was said.
func (p *common) advertised(bind string) string { return withPort(p.advertise, bind) }

// withPort gives host the port of bind, unless it has one of its own.
func withPort(host, bind string) string {
	if host == "" {
		return ""
	}
	if _, _, err := net.SplitHostPort(host); err == nil {
		return host
	}
	_, port, _ := net.SplitHostPort(bind)
	return net.JoinHostPort(strings.Trim(host, "[]"), port)
}

// run starts the role under its logger and the process's signals. A first SIGINT or SIGTERM ends it in order, a second at once.
func (p *common) run(c *cobra.Command, o *ops.Ops, role func(context.Context, *slog.Logger) error) error {
	log, out, err := ops.Logger(c.ErrOrStderr(), p.logLevel, p.logFormat)
	if err != nil {
		return usageError{err}
	}
	defer out.Close()
	o.Registry().MustRegister(out)
	ctx, stop := run.Signals(c.Context())
	defer stop()
	log = log.With("role", p.role, "name", p.name)
	log.Info("starting", "version", release.Version, "data_dir", p.dataDir)
	err = role(ctx, log)
	if err != nil && !errors.Is(err, context.Canceled) {
		return err
	}
	log.Info("stopped")
	return nil
}

// fatal ends the process at once: the peer's disk is stuck or lies, and anything but a dead peer would mislead the others.
func fatal(log *slog.Logger) func(error) {
	return func(err error) {
		log.Error("this peer must not go on", "err", err)
		fmt.Fprintln(os.Stderr, "berth: this peer must not go on:", err) // the log may be behind
		os.Exit(1)
	}
}

func hostName() string {
	name, err := os.Hostname()
	if err != nil {
		return ""
	}
	name, _, _ = strings.Cut(name, ".")
	return name
}

// dataDir is /var/lib/berth/ROLE for root and ./berth-ROLE for anybody else.
func dataDir(role string) string {
	if os.Geteuid() == 0 {
		return filepath.Join("/var/lib/berth", role)
	}
	return "berth-" + role
}

// peerURLs checks the addresses of --peer.
func peerURLs(texts []string) error {
	for _, t := range texts {
		if u, err := url.Parse(t); err == nil && (u.Scheme == "http" || u.Scheme == "https") && u.Host != "" {
			continue
		}
		if _, _, err := net.SplitHostPort(t); err != nil || strings.Contains(t, "/") {
			return usageError{fmt.Errorf("--peer %q is not a peer's address; write http://HOST:7300", t)}
		}
	}
	return nil
}

// hostOf is the advertised host with the port of another address of the same process.
func hostOf(advertise, bind string) string {
	if host, _, err := net.SplitHostPort(advertise); err == nil {
		advertise = host
	}
	return withPort(advertise, bind)
}
