package client

import (
	"context"
	"net/url"
	"sync"
	"time"

	"berth/fleet/wire"
)

// askEach bounds what one peer may take to speak for itself.
const askEach = 2 * time.Second

// PeersThemselves lists the peers, and asks each for what only it can say: how far it has applied, and the fingerprint there. One that does not
// answer keeps what the others say of it. The rows are not of one moment; equal indexes with different fingerprints are a fault all the same.
func (c *Client) PeersThemselves(ctx context.Context) ([]wire.PeerView, Meta, error) {
	peers, meta, err := c.Peers(ctx)
	if err != nil {
		return nil, meta, err
	}
	ctx, cancel := context.WithTimeout(ctx, askEach)
	defer cancel()
	var all sync.WaitGroup
	for i := range peers {
		if p := &peers[i]; p.Fingerprint == "" && p.HTTP != "" {
			all.Go(func() { c.askItself(ctx, p) })
		}
	}
	all.Wait()
	return peers, meta, nil
}

func (c *Client) askItself(ctx context.Context, p *wire.PeerView) {
	one, err := New(Config{Addrs: []string{p.HTTP}, Token: c.token, HTTP: c.http, Agent: c.agent})
	if err != nil {
		return
	}
	own, _, err := list[wire.PeerView](ctx, one, "peers", url.Values{"consistency": {"stale"}})
	if err != nil {
		return
	}
	for _, o := range own {
		if o.ID == p.ID {
			p.AppliedIndex, p.Fingerprint = o.AppliedIndex, o.Fingerprint
		}
	}
}
