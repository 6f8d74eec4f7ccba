package roles

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"time"

	"berth/admin/client"
	"berth/gossip"
	"berth/internal/listen"
	"berth/internal/release"
	"berth/internal/run"
)

// Join says how a role finds the peers: by gossip, or by the URLs of some of them where it may not gossip.
type Join struct {
	Seeds     []string // gossip addresses, HOST[:7302]
	Bind      string   // gossip address to listen on; empty: a free port beside the role's own address
	Advertise string   // gossip address for others; empty: the bind address
	Keys      [][]byte
	PeerURLs  []string // instead of gossip
	Token     string
}

// Validate says what is missing.
func (j Join) Validate() error {
	if len(j.Seeds) == 0 && len(j.PeerURLs) == 0 {
		return errors.New("--join names nobody; give the gossip address of any member, HOST[:7302], or --peer URL where this machine may not gossip")
	}
	return nil
}

// client returns the client of the peers, which begins with the URLs that are known.
func (j Join) client(network listen.Network, role string) (*client.Client, func(), error) {
	transport := listen.Transport(network)
	cfg := client.Config{Addrs: j.PeerURLs, Discover: true, Token: j.Token, Agent: "berth-" + role + "/" + release.Version}
	cfg.HTTP = &http.Client{Transport: transport}
	c, err := client.New(cfg)
	return c, transport.CloseIdleConnections, err
}

// member is what a role says of itself to the others.
type member struct {
	id       string
	instance uint64
	meta     gossip.Meta
	known    string
}

// leaveWait bounds the goodbye to the other members.
const leaveWait = time.Second

// gossip runs gossip for a role and keeps the client's addresses up to date, until the context ends.
func (j Join) gossip(ctx context.Context, network listen.Network, policy listen.Policy, log *slog.Logger, m member, c *client.Client) error {
	if len(j.Seeds) == 0 {
		<-ctx.Done()
		return nil
	}
	g, err := gossip.Open(ctx, gossip.Config{
		ID: m.id, Instance: m.instance, Meta: m.meta, Network: network, Policy: policy, Bind: j.Bind, Advertise: j.Advertise,
		Seeds: j.Seeds, Known: m.known, Keys: j.Keys, Log: log,
	})
	if err != nil {
		return err
	}
	return live(ctx, g, c, log)
}

// live runs gossip until the context ends and says goodbye first, so that the others need not find out. Whether they have heard it is not what an ordered
// end depends on: there may be nobody left to hear.
func live(ctx context.Context, g *gossip.Gossip, c *client.Client, log *slog.Logger) error {
	inner, end := context.WithCancel(context.WithoutCancel(ctx))
	defer end()
	group := run.NewGroup(inner)
	group.Add("gossip", g.Run)
	group.Add("peers", func(ctx context.Context) error { return c.Follow(ctx, peers{g}) })
	group.Add("goodbye", func(inner context.Context) error {
		select {
		case <-inner.Done():
			return nil
		case <-ctx.Done():
			if err := g.Leave(leaveWait); err != nil {
				log.Info("the others may not have heard the goodbye; they will find out", "error", err)
			}
			return nil
		}
	})
	return group.Wait()
}

// peers are the members that a client can speak to.
type peers struct{ *gossip.Gossip }

// Peers implements client.Membership.
func (p peers) Peers() []string {
	var addrs []string
	for _, m := range p.Members() {
		if m.Role == gossip.Peer && m.State == gossip.Alive && m.Addresses["http"] != "" {
			addrs = append(addrs, m.Addresses["http"])
		}
	}
	return addrs
}
