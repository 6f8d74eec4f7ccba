package peer

import (
	"context"
	"maps"
	"slices"

	"berth/admin"
	"berth/consensus"
	"berth/fleet"
	"berth/fsm"
)

// core is the replicated side of this peer, as the API and the duties see it.
type core struct {
	node    *consensus.Node
	machine *fsm.Machine
	// httpOf is gossip's word on where a peer answers, for one that has not announced itself yet; "" if it does not know.
	httpOf func(id string) string
}

// ID implements admin.Core.
func (c *core) ID() string { return c.node.ID() }

// State implements admin.Core.
func (c *core) State() *fsm.State { return c.machine.State() }

// Propose implements admin.Core.
func (c *core) Propose(ctx context.Context, meta fsm.Meta, cmd fsm.Command) (fsm.Outcome, error) {
	return c.node.Propose(ctx, meta, cmd)
}

// write implements writer.
func (c *core) write(ctx context.Context, cmd fsm.Command) error {
	out, err := c.node.Propose(ctx, stamp(), cmd)
	if err != nil {
		return err
	}
	if out.Err != nil {
		return out.Err
	}
	return nil
}

// Verify implements admin.Core: the index is noted before the quorum is asked, so that what this peer then applies is at least as new as the
// question.
func (c *core) Verify(ctx context.Context) error {
	index, err := c.node.ReadIndex(ctx)
	if err != nil {
		return err
	}
	return c.node.WaitApplied(ctx, index)
}

// WaitApplied implements admin.Core.
func (c *core) WaitApplied(ctx context.Context, index uint64) error {
	return c.node.WaitApplied(ctx, index)
}

// Knowledge implements admin.Core.
func (c *core) Knowledge() admin.Knowledge {
	k := admin.Knowledge{CaughtUp: c.node.CaughtUp(), IsLeader: c.node.IsLeader()}
	k.Applied, k.Commit, k.Age = c.node.Knowledge()
	if id, term, ok := c.node.Leader(); ok {
		k.Leader, k.Term, k.LeaderHTTP = id, term, c.leaderHTTP(id)
	}
	return k
}

// leaderHTTP asks the state first: gossip is a hint.
func (c *core) leaderHTTP(id string) string {
	if s, ok := c.State().Server(id); ok && s.HTTP != "" {
		return s.HTTP
	}
	return c.httpOf(id)
}

// others gives the HTTP addresses of the other peers, from the state and from gossip.
func (c *core) others(r *roster) func() []string {
	return func() []string {
		at := map[string]bool{}
		for s := range c.State().Servers() {
			at[s.HTTP] = s.ID != c.ID()
		}
		for _, p := range r.peers() {
			at[p.HTTP] = p.ID != c.ID()
		}
		delete(at, "")
		maps.DeleteFunc(at, func(_ string, other bool) bool { return !other })
		return slices.Sorted(maps.Keys(at))
	}
}

// found gives the cluster its identity in the state, once, and before anything else is written. The id is the one under which the peers found
// each other.
func (c *core) found(ctx context.Context) error {
	if c.State().Cluster().ID != "" {
		return nil
	}
	err := c.write(ctx, fsm.ClusterCreate{ID: c.node.Cluster()})
	if fleet.CodeOf(err) == fleet.Conflict { // an entry of an earlier term that has only now been applied
		return nil
	}
	return err
}
