package peer

import (
	"context"
	"errors"
	"path/filepath"
	"time"

	"berth/fsm"
	"berth/gossip"
)

// gossiper is gossip as this package needs it.
type gossiper interface {
	Run(ctx context.Context) error
	// joined tells the others to which cluster this peer belongs.
	joined(cluster string) error
	living() []member
	// Events is what an operator must see: copied machines, strangers.
	Events() <-chan gossip.Event
}

// leaveWait bounds the goodbye to the other members.
const leaveWait = 2 * time.Second

// Purposes of a member's addresses.
const (
	forHTTP = "http"
	forRaft = "raft"
)

// membership is this peer's gossip.
type membership struct {
	*gossip.Gossip
	meta gossip.Meta
}

// openGossip opens the gossip port. A peer's identity there is its name, as everywhere.
func openGossip(ctx context.Context, c Config, self selfInfo) (gossiper, error) {
	m := gossip.Meta{
		Role: gossip.Peer, Name: c.Name, Cluster: self.cluster, MaxLevel: fsm.Level,
		Addresses: map[string]string{forHTTP: self.http, forRaft: self.raft},
	}
	known := ""
	if !c.InMemory {
		known = filepath.Join(c.DataDir, "gossip.json")
	}
	g, err := gossip.Open(ctx, gossip.Config{
		ID: c.Name, Instance: self.instance, Meta: m, Network: c.Network, Policy: c.Policy, Bind: c.Gossip.Bind, Advertise: c.Gossip.Advertise,
		Seeds: c.Join, Known: known, Keys: c.GossipKeys, Log: c.Log, Resolve: c.Resolve,
	})
	if err != nil {
		return nil, err
	}
	return &membership{g, m}, nil
}

// selfInfo is what a peer says of itself to gossip.
type selfInfo struct {
	instance            uint64
	cluster, http, raft string
}

// Run lives until the context ends; it says goodbye first, so that the others need not find out.
func (m *membership) Run(ctx context.Context) error {
	inner, end := context.WithCancel(context.WithoutCancel(ctx))
	defer end()
	done := make(chan error, 1)
	go func() { done <- m.Gossip.Run(inner) }()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
	}
	left := m.Leave(leaveWait)
	end()
	return errors.Join(<-done, left)
}

func (m *membership) joined(cluster string) error {
	m.meta.Cluster = cluster
	return m.Update(m.meta)
}

// living lists the peers and agents that are alive.
func (m *membership) living() []member {
	var out []member
	for _, g := range m.Members() {
		if g.State != gossip.Alive || g.Role != gossip.Peer && g.Role != gossip.Agent {
			continue
		}
		out = append(out, member{
			Role: string(g.Role), Name: g.Name, ID: g.ID, Instance: g.Instance, HTTP: g.Addresses[forHTTP], Raft: g.Addresses[forRaft],
		})
	}
	return out
}
