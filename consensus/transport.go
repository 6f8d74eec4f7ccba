package consensus

import (
	"io"
	"time"

	"github.com/hashicorp/raft"
)

// transport is raft's own network transport over the port, with three additions: the id of the peer called goes to the
// port for the handshake, every answer is noted in the ledger, and an answer counts only once this peer's own disk has
// what was answered for (see ahead).
type transport struct {
	*raft.NetworkTransport
	ledger *ledger
	stored func(index uint64) error // returns when everything up to an index is on this peer's disk
}

func newTransport(p *port, l *ledger, stored func(uint64) error, c Config) *transport {
	return &transport{ledger: l, stored: stored, NetworkTransport: raft.NewNetworkTransportWithConfig(&raft.NetworkTransportConfig{
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
	if n := len(req.Entries); err == nil && resp.Success && n > 0 {
		err = t.stored(req.Entries[n-1].Index)
	}
	return err
}

// AppendEntriesPipeline implements raft.Transport: there is none, see newTransport; its answers would not pass AppendEntries.
func (t *transport) AppendEntriesPipeline(raft.ServerID, raft.ServerAddress) (raft.AppendPipeline, error) {
	return nil, raft.ErrPipelineReplicationNotSupported
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
