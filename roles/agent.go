package roles

import (
	"context"
	"path/filepath"

	"berth/agent"
	"berth/gossip"
	"berth/internal/listen"
)

// RunAgent runs an agent and its gossip until the context ends. Peers and Addresses of cfg are filled here.
func RunAgent(ctx context.Context, cfg agent.Config, j Join) error {
	a, closeIdle, err := NewAgent(cfg, j)
	if err != nil {
		return err
	}
	defer closeIdle()
	return a.Run(ctx)
}

// NewAgent makes the agent that RunAgent runs. The function is called after its end.
func NewAgent(cfg agent.Config, j Join) (*agent.Agent, func(), error) {
	if cfg.Network == nil {
		cfg.Network = listen.System
	}
	if err := j.Validate(); err != nil {
		return nil, nil, err
	}
	c, closeIdle, err := j.client(cfg.Network, "agent")
	if err != nil {
		return nil, nil, err
	}
	cfg.Peers, cfg.Addresses = c, c
	cfg.Companion = func(ctx context.Context, self agent.Self) error {
		return j.gossip(ctx, cfg.Network, cfg.Policy, cfg.Logger, member{
			id: self.ID, instance: self.Instance, known: filepath.Join(cfg.DataDir, "gossip.json"),
			meta: gossip.Meta{Role: gossip.Agent, Name: cfg.Name, Cluster: self.Cluster, Addresses: map[string]string{"http": self.Address}},
		}, c)
	}
	a, err := agent.New(cfg)
	return a, closeIdle, err
}
