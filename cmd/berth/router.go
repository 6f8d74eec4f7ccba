package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"berth/internal/heap"
	"berth/internal/listen"
	"berth/internal/run"
	"berth/roles"
	"berth/router"
	"berth/router/access"
)

type routerFlags struct {
	*common
	peerURLs   []string
	gossipBind string
	opsBind    string
	drain      time.Duration
	keys       string
	share      bool
	tlsCert    string
	tlsKey     string
}

func routerCmd() *cobra.Command {
	f := &routerFlags{common: newCommon("router")}
	c := &cobra.Command{
		Use: "router", Short: "run an OpenAI-compatible router", Args: cobra.NoArgs,
		Long: "Run an OpenAI-compatible router: it sends each request to a replica of its model, streams the answer, and reports what was used.\n" +
			"It goes on with its last table when no peer answers.",
		RunE: func(c *cobra.Command, _ []string) error {
			cfg, join, err := f.resolve(c)
			if err != nil {
				return err
			}
			return f.run(c, f.ops(), func(ctx context.Context, log *slog.Logger) error {
				cfg.Logger = log
				if f.tlsCert != "" {
					certificate, err := listen.NewCertificate(f.tlsCert, f.tlsKey, log)
					if err != nil {
						return err
					}
					cfg.TLS = certificate.Config()
				}
				g := run.NewGroup(ctx)
				g.Add("router", func(ctx context.Context) error { return roles.RunRouter(ctx, cfg, join) })
				g.Add("heap", func(ctx context.Context) error { return heap.Spare(ctx, router.SpareHeap) })
				return g.Wait()
			})
		},
	}
	f.add(c)
	return c
}

func (f *routerFlags) add(c *cobra.Command) {
	f.flags(c, "127.0.0.1:7380")
	s := c.Flags()
	s.StringVar(&f.opsBind, "ops-bind", "127.0.0.1:7381", "HTTP address for operators: health, metrics, table, report")
	s.StringSliceVar(&f.peerURLs, "peer", nil, "URL of a peer, instead of --join, where this machine may not gossip; repeats")
	s.StringVar(&f.gossipBind, "gossip-bind", "", "gossip address to listen on (default: a free port on the host of --bind)")
	s.DurationVar(&f.drain, "drain", 30*time.Second, "what requests in flight may have when the router ends")
	s.BoolVar(&f.share, "share-ports", false, "take over from a running router with the same flags once that is told to end, and let the next one take over: no request fails")
	s.StringVar(&f.keys, "api-keys", "", "file of API keys, by their hashes, and of limits, read again when it changes; without it everybody may send anything")
	s.StringVar(&f.tlsCert, "tls-cert", "", "file of the certificate (PEM, with its chain) for clients; read again when it changes")
	s.StringVar(&f.tlsKey, "tls-key", "", "file of the certificate's key (PEM)")
}

func (f *routerFlags) resolve(c *cobra.Command) (router.Config, roles.Join, error) {
	if err := f.settings(c); err != nil {
		return router.Config{}, roles.Join{}, err
	}
	if err := peerURLs(f.peerURLs); err != nil {
		return router.Config{}, roles.Join{}, err
	}
	cfg := router.Config{
		Name: f.name, DataDir: f.dataDir, Bind: f.bind, Ops: f.opsBind, Advertise: f.advertised(f.bind), AdvertiseOps: hostOf(f.advertise, f.opsBind),
		Network: listen.System, Policy: f.policy(), Drain: f.drain, Share: f.share,
	}
	if f.keys != "" {
		keys, err := access.Read(f.keys)
		if err != nil {
			return cfg, roles.Join{}, usageError{fmt.Errorf("--api-keys: %w", err)}
		}
		cfg.Keys, cfg.KeysFile = &keys, f.keys
	}
	if (f.tlsCert == "") != (f.tlsKey == "") {
		return cfg, roles.Join{}, usageError{errors.New("--tls-cert and --tls-key belong together")}
	}
	join := roles.Join{Seeds: f.join, PeerURLs: f.peerURLs, Bind: f.gossipBind, Advertise: hostOf(f.advertise, f.gossipBind)}
	if join.Bind == "" {
		join.Bind = withPort(hostPart(f.bind), "x:0")
	}
	if err := join.Validate(); err != nil {
		return cfg, join, usageError{err}
	}
	return cfg, join, nil
}

// hostPart is the host of host:port.
func hostPart(addr string) string {
	return strings.Trim(addr[:max(0, strings.LastIndexByte(addr, ':'))], "[]")
}
