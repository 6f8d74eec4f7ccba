package consensus

import (
	"context"
	"time"

	"berth/internal/run"
)

// promoteAfter is how long a peer must have kept up before it gets a vote.
const promoteAfter = 10 * time.Second

// PromoteWhenReady is a duty of the leader: it gives a vote to each non-voter that may have one and has kept up for 10
// seconds, one at a time. Nil lets every non-voter have one. It returns nil at the end of the context.
func (n *Node) PromoteWhenReady(ctx context.Context, may func(Server) bool) error {
	since := map[string]time.Time{}
	return run.Every(ctx, time.Second, func(ctx context.Context) error {
		for _, s := range n.Servers() {
			if s.Voter || may != nil && !may(s) || !n.ready(s) {
				delete(since, s.ID)
				continue
			}
			if since[s.ID].IsZero() {
				since[s.ID] = time.Now()
			}
			if time.Since(since[s.ID]) < promoteAfter {
				continue
			}
			if err := n.Promote(ctx, s.ID, false); err != nil {
				n.cfg.Log.Warn("cannot promote a peer", "peer", s.ID, "error", err)
				continue
			}
			n.cfg.Log.Info("promoted a peer to voter", "peer", s.ID, "index", s.Match)
			return nil // the next one when this configuration is committed
		}
		return nil
	})
}
