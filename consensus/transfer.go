package consensus

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/hashicorp/raft"

	"berth/fleet"
)

// Transfer hands leadership to a voter, or to the most advanced one if id is empty. One at a time, and only to a peer
// that keeps up: towards one that hangs, raft can stay for ever in a state in which it leads and refuses every write
// (raft issue 696). If that happens all the same, this peer ends, and the others elect.
func (n *Node) Transfer(ctx context.Context, id string) error {
	if !n.transfer.TryLock() {
		return fleet.Errorf(fleet.Busy, "leadership is being handed over already")
	}
	defer n.transfer.Unlock()
	if !n.IsLeader() {
		return n.noLeader()
	}
	to, err := n.heir(id)
	if err != nil {
		return err
	}
	term := n.raft.CurrentTerm()
	_, err = await(ctx, n, func(time.Duration) raft.Future {
		return n.raft.LeadershipTransferToServer(raft.ServerID(to.ID), raft.ServerAddress(to.Address))
	})
	if err == nil {
		return nil
	}
	n.unwedge(term)
	return fleet.Errorf(fleet.Busy, "peer %s did not take over: %v", to.ID, err).WithHint("peer %s may lead on; try again or name another", n.cfg.ID)
}

// heir chooses to whom leadership may go.
func (n *Node) heir(id string) (Server, error) {
	servers := n.Servers()
	if id != "" {
		s, err := find(servers, id)
		switch {
		case err != nil:
			return s, err
		case s.ID == n.cfg.ID:
			return s, fleet.Errorf(fleet.BadRequest, "peer %s leads already", id)
		case !s.Voter:
			return s, fleet.Errorf(fleet.Conflict, "peer %s has no vote", id)
		case !n.ready(s):
			return s, fleet.Errorf(fleet.NotReady, "peer %s does not keep up: it is at index %d", id, s.Match)
		}
		return s, nil
	}
	var best Server
	for _, s := range servers {
		if s.Voter && s.ID != n.cfg.ID && n.ready(s) && s.Match >= best.Match {
			best = s
		}
	}
	if best.ID == "" {
		return best, fleet.Errorf(fleet.NotReady, "no other voter keeps up")
	}
	return best, nil
}

// unwedge waits until this leader, if it still is one, takes writes again, and ends it if it does not.
func (n *Node) unwedge(term uint64) {
	limit := time.Now().Add(n.cfg.Timings.scale(2*time.Second) + transportWait)
	for n.IsLeader() && n.raft.CurrentTerm() == term && n.ctx.Err() == nil {
		_, err := await(n.ctx, n, func(wait time.Duration) raft.Future { return n.raft.Barrier(wait) })
		if !errors.Is(err, raft.ErrLeadershipTransferInProgress) {
			return
		}
		if time.Now().After(limit) {
			n.fatal(fmt.Errorf("raft has been stuck in a leadership transfer since term %d and refuses every write", term))
			return
		}
		pause(n.ctx, 100*time.Millisecond)
	}
}
