package peer

import (
	"context"
	"time"

	"berth/consensus"
	"berth/fleet"
	"berth/fleet/wire"
	"berth/fsm"
)

// States of a peer.
const (
	stateLeader      = "leader"
	stateFollower    = "follower"
	stateNonVoter    = "non-voter"
	stateUnreachable = "unreachable"
	stateDiscovered  = "discovered"
)

// peerSilentAfter is how long a peer may not have answered the leader before it is shown as unreachable.
const peerSilentAfter = 5 * time.Second

// unknown stands for a duration that nobody can say.
const unknown = -1

// members is the membership of the cluster, as the API sees it.
type members struct {
	core   *core
	roster *roster
}

// Peers implements admin.Members: first those of the configuration, then those that only gossip knows.
func (m *members) Peers() []wire.PeerView {
	state := m.core.State()
	var out []wire.PeerView
	known := make(map[string]bool)
	for _, s := range m.core.node.Servers() {
		known[s.ID] = true
		out = append(out, m.view(state, s))
	}
	for _, p := range m.roster.peers() {
		if !known[p.ID] {
			out = append(out, wire.PeerView{ID: p.ID, HTTP: p.HTTP, Raft: p.Raft, State: stateDiscovered, HeardSeconds: unknown})
		}
	}
	return out
}

func (m *members) view(state *fsm.State, s consensus.Server) wire.PeerView {
	v := wire.PeerView{ID: s.ID, Raft: s.Address, Voter: s.Voter, State: stateFollower, HeardSeconds: unknown}
	if row, ok := state.Server(s.ID); ok {
		v.HTTP, v.Version, v.Level = row.HTTP, row.Version, row.MaxLevel
	}
	if s.Heard >= 0 {
		v.HeardSeconds = s.Heard.Seconds()
	}
	switch {
	case s.Leader:
		v.State = stateLeader
	case m.core.node.IsLeader() && (s.Heard < 0 || s.Heard > peerSilentAfter):
		v.State = stateUnreachable
	case !s.Voter:
		v.State = stateNonVoter
	}
	if s.ID == m.core.ID() {
		v.AppliedIndex, v.Fingerprint, v.HeardSeconds = state.Index().String(), state.Fingerprint(), 0
	}
	return v
}

// AddPeer implements admin.Members.
func (m *members) AddPeer(ctx context.Context, s fleet.Server) error {
	if err := m.core.node.AddNonvoter(ctx, s.ID, s.Raft, false); err != nil {
		return err
	}
	if s.HTTP == "" {
		return nil
	}
	return m.core.write(ctx, fsm.ServerAnnounce{Server: s})
}

// MovePeer implements admin.Members. The row of its other addresses follows when the peer announces itself.
func (m *members) MovePeer(ctx context.Context, id, raft string, force bool) error {
	return m.core.node.AddNonvoter(ctx, id, raft, force)
}

// RemovePeer implements admin.Members. Its row, and with it its say in the level, goes by a command of its own.
func (m *members) RemovePeer(ctx context.Context, id string) error {
	return m.core.node.Remove(ctx, id, false)
}

// PromotePeer implements admin.Members.
func (m *members) PromotePeer(ctx context.Context, id string) error {
	return m.core.node.Promote(ctx, id, false)
}

// DemotePeer implements admin.Members.
func (m *members) DemotePeer(ctx context.Context, id string) error {
	return m.core.node.Demote(ctx, id, false)
}

// TransferLeadership implements admin.Members.
func (m *members) TransferLeadership(ctx context.Context, to string) error {
	return m.core.node.Transfer(ctx, to)
}
