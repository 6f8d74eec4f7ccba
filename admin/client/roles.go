package client

import (
	"context"
	"net/http"
	"net/url"
	"time"

	"berth/fleet"
	"berth/fleet/wire"
)

// slack is what a blocking query may take beyond its wait before the peer is taken for dead, and what any other call of a role may take in all.
const slack = 5 * time.Second

// Register tells the peers what an agent's machine is and what runs there.
func (c *Client) Register(ctx context.Context, r wire.Registration) (wire.Registered, error) {
	return answer[wire.Registered](ctx, c, Call{Method: http.MethodPut, Path: "agents/" + url.PathEscape(r.Name), Body: r, Timeout: 2 * slack})
}

// Orders waits for orders newer than after, for at most wait.
func (c *Client) Orders(ctx context.Context, node string, after fleet.Index, wait time.Duration) (wire.Orders, error) {
	q := ReadOptions{Index: after, Wait: wait}.query()
	return answer[wire.Orders](ctx, c, Call{Path: "agents/" + url.PathEscape(node) + "/orders", Query: q, Timeout: wait + slack})
}

// Transitions reports a batch of lifecycle steps.
func (c *Client) Transitions(ctx context.Context, node string, t wire.Transitions) (wire.TransitionResults, error) {
	return answer[wire.TransitionResults](ctx, c, Call{Method: http.MethodPost, Path: "agents/" + url.PathEscape(node) + "/transitions", Body: t, Timeout: 2 * slack})
}

// Heartbeat sends one heartbeat to one peer, and moves to the next peer for the one after when it fails or when that peer has had no leader's
// stamp of late.
func (c *Client) Heartbeat(ctx context.Context, h wire.Heartbeat) (wire.HeartbeatAnswer, error) {
	a, err := answer[wire.HeartbeatAnswer](ctx, c, Call{Method: http.MethodPost, Path: "agents/" + url.PathEscape(h.Node) + "/heartbeat", Body: h, Timeout: slack})
	if err == nil && a.Stamp == nil {
		c.moveOn()
	}
	return a, err
}

func (c *Client) moveOn() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.addrs) > 0 {
		c.active = (c.active + 1) % len(c.addrs)
	}
}

// Table waits for a routing table newer than after, for at most wait.
func (c *Client) Table(ctx context.Context, after fleet.Index, wait time.Duration) (wire.Table, error) {
	q := ReadOptions{Index: after, Wait: wait}.query()
	return answer[wire.Table](ctx, c, Call{Path: "table", Query: q, Timeout: wait + slack})
}

// Report sends a router's report of use and demand.
func (c *Client) Report(ctx context.Context, r wire.Report) (wire.ReportAnswer, error) {
	return answer[wire.ReportAnswer](ctx, c, Call{Method: http.MethodPost, Path: "routers/" + url.PathEscape(r.Router) + "/report", Body: r, Timeout: slack})
}

// RelayHeartbeats passes held heartbeats from a follower to the leader at addr.
func (c *Client) RelayHeartbeats(ctx context.Context, r wire.Relay) (wire.RelayAnswer, error) {
	return answer[wire.RelayAnswer](ctx, c, Call{Method: http.MethodPost, Path: "/internal/v1/heartbeats", Body: r, Timeout: slack, Once: true})
}

// Membership is what a client learns the peers' addresses from; gossip has it.
type Membership interface {
	Peers() []string        // HTTP addresses of the peers that are seen alive
	Watch() <-chan struct{} // closed when that may have changed
}

// Follow keeps the client's addresses up to date until the context ends. Addresses that vanish are kept until others are known: gossip is a hint,
// and a peer that it has lost may still answer.
func (c *Client) Follow(ctx context.Context, m Membership) error {
	for {
		changed := m.Watch()
		if addrs := m.Peers(); len(addrs) > 0 {
			if err := c.SetAddrs(addrs); err != nil {
				return err
			}
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nil
		}
	}
}
