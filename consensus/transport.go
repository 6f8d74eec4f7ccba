package consensus

import (
	"io"
	"time"

	"github.com/hashicorp/raft"
)

// transport is raft's own network transport over the port, with two additions: the id of the peer called goes to the
// port for the handshake, and every answer is noted in the ledger.
type transport struct {
	*raft.NetworkTransport
	ledger *ledger
}

func newTransport(p *port, l *ledger, c Config) *transport {
	return &transport{ledger: l, NetworkTransport: raft.NewNetworkTransportWithConfig(&raft.NetworkTransportConfig{
		Stream:  p,
		MaxPool: 3,
		// 1 turns pipelining off. With it a follower that stalled once may never be replicated to again while its
		// heartbeats pass (raft issue 612); it gains little where entries are grouped (raft issue 541).
		MaxRPCsInFlight: 1,
		Timeout:         transportWait,
		Logger:          newRaftLogger(c.Log),
	})}
}

func (t *transport) AppendEntries(id raft.ServerID, addr raft.ServerAddress, req *raft.AppendEntriesRequest, resp *raft.AppendEntriesResponse) error {
	sent := time.Now()
	err := t.NetworkTransport.AppendEntries(id, target(id, addr), req, resp)
	if err == nil && resp.Term <= req.Term {
		t.ledger.answered(id, req, resp.Success, sent)
	}
	return err
}

func (t *transport) RequestVote(id raft.ServerID, addr raft.ServerAddress, req *raft.RequestVoteRequest, resp *raft.RequestVoteResponse) error {
	return t.NetworkTransport.RequestVote(id, target(id, addr), req, resp)
}

func (t *transport) RequestPreVote(id raft.ServerID, addr raft.ServerAddress, req *raft.RequestPreVoteRequest, resp *raft.RequestPreVoteResponse) error {
	return t.NetworkTransport.RequestPreVote(id, target(id, addr), req, resp)
}

func (t *transport) InstallSnapshot(id raft.ServerID, addr raft.ServerAddress, req *raft.InstallSnapshotRequest, resp *raft.InstallSnapshotResponse, data io.Reader) error {
	t.ledger.installing(id, req.Term)
	defer t.ledger.replicating(id, req.Term, true)
	note := func() { t.ledger.replicating(id, req.Term, false) }
	return t.NetworkTransport.InstallSnapshot(id, target(id, addr), req, resp, outgoing{data, note})
}

func (t *transport) TimeoutNow(id raft.ServerID, addr raft.ServerAddress, req *raft.TimeoutNowRequest, resp *raft.TimeoutNowResponse) error {
	return t.NetworkTransport.TimeoutNow(id, target(id, addr), req, resp)
}
