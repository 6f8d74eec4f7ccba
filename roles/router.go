package roles

import (
	"context"
	"path/filepath"

	"berth/gossip"
	"berth/internal/durable"
	"berth/internal/listen"
	"berth/internal/run"
	"berth/router"
)

// RunRouter runs a router and its gossip until the context ends. Source and Sink of cfg are filled here.
func RunRouter(ctx context.Context, cfg router.Config, j Join) error {
	if cfg.Network == nil {
		cfg.Network = listen.System
	}
	if err := j.Validate(); err != nil {
		return err
	}
	c, closeIdle, err := j.client(cfg.Network, "router")
	if err != nil {
		return err
	}
	defer closeIdle()
	cfg.Source, cfg.Sink = c, c
	if cfg.Share {
		if err := router.Await(ctx, cfg.DataDir, cfg.Logger); err != nil {
			return err
		}
	}
	r, err := router.New(cfg) // it locks the data directory, which the identity below lies in
	if err != nil {
		return err
	}
	m, err := routerMember(cfg)
	if err != nil {
		_ = r.Close() // what counts is why the router cannot run
		return err
	}
	g := run.NewGroup(ctx)
	g.Add("router", r.Run)
	g.Add("gossip", func(ctx context.Context) error { return j.gossip(ctx, cfg.Network, cfg.Policy, cfg.Logger, m, c) })
	return g.Wait()
}

func routerMember(cfg router.Config) (member, error) {
	id, err := durable.LoadOrCreateID(filepath.Join(cfg.DataDir, "id"), "router")
	if err != nil {
		return member{}, err
	}
	instance, err := durable.NextCounter(filepath.Join(cfg.DataDir, "gossip-starts"))
	if err != nil {
		return member{}, err
	}
	return member{id: id, instance: instance, known: filepath.Join(cfg.DataDir, "gossip.json"), meta: gossip.Meta{Role: gossip.Router, Name: cfg.Name}}, nil
}
