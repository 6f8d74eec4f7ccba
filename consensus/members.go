package consensus

import (
	"context"
	"time"

	"github.com/hashicorp/raft"

	"berth/fleet"
)

// Server is a peer of the configuration. What only the leader can know is zero elsewhere.
type Server struct {
	ID      string
	Address string
	Voter   bool
	Leader  bool
	// Match is the index up to which its log is known to agree with the leader's.
	Match uint64
	// Heard is how long ago it last answered a message of this leader, counted from the sending; -1: never, or not known here.
	Heard time.Duration
	// Installs counts the snapshots sent to it in the last 5 minutes; more than 3 means that it does not keep up.
	Installs int
	// Silent is for how long it has answered heartbeats and nothing else; 0: it is not silent.
	Silent time.Duration
}

// Servers lists the newest configuration, committed or not, in its own order.
func (n *Node) Servers() []Server {
	_, leader := n.raft.LeaderWithID()
	leading, term := n.IsLeader(), n.raft.CurrentTerm()
	var all []Server
	for _, s := range n.servers() {
		v := Server{ID: string(s.ID), Address: string(s.Address), Voter: s.Suffrage == raft.Voter, Leader: s.ID == leader, Heard: -1}
		switch {
		case leading && v.ID == n.cfg.ID:
			v.Match, v.Heard = n.raft.LastIndex(), 0
		case leading:
			f := n.ledger.progress(s.ID, term)
			v.Match, v.Installs, v.Silent = f.match, len(f.installs), f.silent(time.Now())
			if !f.asked.IsZero() {
				v.Heard = time.Since(f.asked)
			}
		}
		all = append(all, v)
	}
	return all
}

// AddNonvoter takes a peer into the configuration without a vote. A known id at the same address is fine already; at another address it keeps its vote
// and has moved, if it answers there and nobody answers in its name at the old one. Otherwise that is refused unless forced: a copy of its disk
// would take its place.
func (n *Node) AddNonvoter(ctx context.Context, id, address string, force bool) error {
	if err := fleet.CheckName("peer", id); err != nil {
		return err
	}
	return n.change(ctx, func(servers []Server, index uint64, wait time.Duration) (raft.IndexFuture, error) {
		for _, s := range servers {
			switch {
			case s.ID == id && s.Address == address:
				return nil, nil
			case s.ID == id:
				if err := n.moved(ctx, s, address, force); err != nil {
					return nil, err
				}
				n.cfg.Log.Warn("a peer has moved", "peer", id, "from", s.Address, "to", address, "forced", force)
				if s.Voter { // which only changes the address
					return n.raft.AddVoter(raft.ServerID(id), raft.ServerAddress(address), index, wait), nil
				}
			case s.ID != id && s.Address == address:
				return nil, fleet.Errorf(fleet.Conflict, "address %s belongs to peer %s", address, s.ID)
			}
		}
		return n.raft.AddNonvoter(raft.ServerID(id), raft.ServerAddress(address), index, wait), nil
	})
}

// moved says why a peer that is known at one address may not be taken at another; nil: it may. One process may answer at both.
func (n *Node) moved(ctx context.Context, s Server, address string, force bool) error {
	if force {
		return nil
	}
	refuse := func(format string, args ...any) error {
		return fleet.Errorf(fleet.DuplicateID, "peer %s is known at %s, not at %s: "+format, append([]any{s.ID, s.Address, address}, args...)...).
			WithHint("stop the one that is not wanted; or say it with berthctl peer move %s %s --force", s.ID, address)
	}
	is, err := n.Probe(ctx, Candidate{ID: s.ID, Address: address})
	if err != nil {
		return refuse("nobody answers there in its name: %v", err)
	}
	was, err := n.Probe(ctx, Candidate{ID: s.ID, Address: s.Address})
	switch {
	case err == nil && (was.Instance == "" || was.Instance != is.Instance):
		return refuse("two processes answer in its name, one at each")
	case err != nil && n.answers(s):
		return refuse("it answered at the old address %v ago", s.Heard)
	}
	return nil
}

// promoteLag is how many entries a peer may lie behind the commit index and still get a vote.
const promoteLag = 250

// Promote gives a peer a vote. Without force it must have caught up: an empty voter raises the quorum and helps nobody.
func (n *Node) Promote(ctx context.Context, id string, force bool) error {
	return n.change(ctx, func(servers []Server, index uint64, wait time.Duration) (raft.IndexFuture, error) {
		s, err := find(servers, id)
		switch {
		case err != nil:
			return nil, err
		case s.Voter:
			return nil, nil
		case !force && !n.ready(s):
			return nil, fleet.Errorf(fleet.NotReady, "peer %s is at index %d of %d and not ready for a vote", id, s.Match, n.raft.CommitIndex()).
				WithHint("it is promoted by itself once it has kept up for %v", promoteAfter)
		}
		return n.raft.AddVoter(raft.ServerID(id), raft.ServerAddress(s.Address), index, wait), nil
	})
}

// Demote takes a peer's vote away and keeps it as a non-voter. The leader is refused: raft ends itself in a leader that loses its vote.
func (n *Node) Demote(ctx context.Context, id string, force bool) error {
	return n.change(ctx, func(servers []Server, index uint64, wait time.Duration) (raft.IndexFuture, error) {
		s, err := find(servers, id)
		switch {
		case err != nil || !s.Voter:
			return nil, err
		case id == n.cfg.ID:
			return nil, fleet.Errorf(fleet.Conflict, "peer %s leads; a leader keeps its vote", id).
				WithHint("make another peer the leader first, with berthctl peer transfer ID")
		}
		if err := n.spare(servers, id, force); err != nil {
			return nil, err
		}
		return n.raft.DemoteVoter(raft.ServerID(id), index, wait), nil
	})
}

// Remove takes a peer out of the configuration. The last voter is refused always, one whose loss would leave fewer live
// voters than a quorum unless forced.
func (n *Node) Remove(ctx context.Context, id string, force bool) error {
	return n.change(ctx, func(servers []Server, index uint64, wait time.Duration) (raft.IndexFuture, error) {
		s, err := find(servers, id)
		if err != nil {
			return nil, err
		}
		if s.Voter {
			if err := n.spare(servers, id, force); err != nil {
				return nil, err
			}
		}
		return n.raft.RemoveServer(raft.ServerID(id), index, wait), nil
	})
}

// change makes one change of the configuration as the leader. The change is for the configuration that was looked at:
// raft refuses it if another came between. A nil future means that nothing is to do.
func (n *Node) change(ctx context.Context, decide func(servers []Server, index uint64, wait time.Duration) (raft.IndexFuture, error)) error {
	if !n.IsLeader() {
		return n.noLeader()
	}
	index := n.raft.GetConfiguration().Index()
	f, err := decide(n.Servers(), index, n.cfg.Timings.Wait)
	if err != nil || f == nil {
		return err
	}
	_, err = await(ctx, n, func(time.Duration) raft.IndexFuture { return f })
	return n.explain(err)
}

func find(servers []Server, id string) (Server, error) {
	for _, s := range servers {
		if s.ID == id {
			return s, nil
		}
	}
	return Server{}, fleet.Errorf(fleet.NotFound, "no peer %s is in the cluster", id)
}

// spare says whether the cluster can do without a voter's vote.
func (n *Node) spare(servers []Server, id string, force bool) error {
	voters, live := 0, 0
	for _, s := range servers {
		if !s.Voter || s.ID == id {
			continue
		}
		voters++
		if n.answers(s) {
			live++
		}
	}
	if voters == 0 {
		return fleet.Errorf(fleet.Conflict, "peer %s is the last voter; without it the cluster is gone", id).
			WithHint("add and promote another peer first")
	}
	if quorum := voters/2 + 1; live < quorum && !force {
		return fleet.Errorf(fleet.Conflict, "without peer %s only %d of the %d voters left would answer, and %d must", id, live, voters, quorum).
			WithHint("bring the others back first, or force it")
	}
	return nil
}

// answers reports whether a peer has answered lately enough to count on.
func (n *Node) answers(s Server) bool {
	return s.Heard >= 0 && s.Heard < n.cfg.Timings.scale(2*time.Second)
}

// ready reports whether a peer keeps up well enough for a vote.
func (n *Node) ready(s Server) bool {
	return n.answers(s) && s.Match+promoteLag >= n.raft.CommitIndex()
}
