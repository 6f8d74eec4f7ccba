package consensus

import (
	"context"
	"errors"
	"time"

	"github.com/hashicorp/raft"

	"berth/fleet"
	"berth/fsm"
)

// Propose commits a command and gives its outcome; only the leader can. An error says that the command was not applied,
// or, with fleet.OutcomeUnknown, that nobody knows yet: the same request id sent again finds out. A command that was
// committed and refused by the state is no error here: see Outcome.Err and Outcome.Items.
func (n *Node) Propose(ctx context.Context, meta fsm.Meta, c fsm.Command) (fsm.Outcome, error) {
	e, err := fsm.NewEntry(meta, c)
	if err != nil {
		return fsm.Outcome{}, err
	}
	if !n.IsLeader() {
		return fsm.Outcome{}, n.noLeader()
	}
	n.adapter.proposals.add(e)
	defer n.adapter.proposals.take(e.Data()) // what raft brings back only later is read again
	f, err := await(ctx, n, func(wait time.Duration) raft.ApplyFuture { return n.raft.Apply(e.Data(), wait) })
	if err != nil {
		return fsm.Outcome{}, n.explain(err)
	}
	switch r := f.Response().(type) {
	case fsm.Outcome:
		return r, nil
	case error:
		return fsm.Outcome{}, fleet.Errorf(fleet.OutcomeUnknown, "this peer stopped while it applied the write: %v", r)
	default:
		return fsm.Outcome{}, fleet.Errorf(fleet.Internal, "the state machine answered with %T", r)
	}
}

// Verify returns when a quorum has confirmed that this peer led at some moment after the call. It says nothing about
// what has been applied. raft alone also counts an answer that was under way before it was asked, so the ledger decides:
// it goes by when the question was sent.
func (n *Node) Verify(ctx context.Context) error {
	start, term := time.Now(), n.raft.CurrentTerm()
	ctx, cancel := context.WithTimeout(ctx, n.cfg.Timings.Wait)
	defer cancel()
	for {
		_, err := await(ctx, n, func(time.Duration) raft.Future { return n.raft.VerifyLeader() })
		if err != nil {
			return n.explainRead(err)
		}
		if !n.ledger.confirmed(term, raft.ServerID(n.cfg.ID), n.servers(), time.Now()).Before(start) {
			return nil
		}
		pause(ctx, time.Millisecond) // the rest of the quorum is about to answer
	}
}

// barrier returns when everything committed before it has been applied here.
func (n *Node) barrier(ctx context.Context) error {
	_, err := await(ctx, n, func(wait time.Duration) raft.Future { return n.raft.Barrier(wait) })
	return n.explainRead(err)
}

// errLate is the passing of our own deadline: raft has none for what it has begun.
var errLate = errors.New("raft did not answer in time")

// await waits for a future of raft within the context and Timings.Wait.
func await[F raft.Future](ctx context.Context, n *Node, start func(wait time.Duration) F) (F, error) {
	return awaitFor(ctx, n, n.cfg.Timings.Wait, start)
}

// awaitFor is await with a limit of its own. raft's futures can block for ever while a disk is stuck, so the wait is on
// a goroutine that the node joins when raft ends.
func awaitFor[F raft.Future](ctx context.Context, n *Node, limit time.Duration, start func(wait time.Duration) F) (F, error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	deadline, _ := ctx.Deadline()
	type result struct {
		future F
		err    error
	}
	done := make(chan result, 1)
	var none F
	if !n.spawnOn(&n.calls, func() {
		f := start(max(time.Until(deadline), time.Millisecond)) // 0 would mean no limit
		done <- result{f, f.Error()}
	}) {
		return none, raft.ErrRaftShutdown
	}
	select {
	case r := <-done:
		return r.future, r.err
	case <-ctx.Done():
		return none, errLate
	case <-n.ctx.Done():
		return none, raft.ErrRaftShutdown
	}
}

// explain says what an error of raft means to someone who wrote.
func (n *Node) explain(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, raft.ErrNotLeader):
		return n.noLeader()
	case errors.Is(err, raft.ErrLeadershipTransferInProgress):
		return fleet.Errorf(fleet.NoLeader, "leadership is being handed over").WithHint("try again in a second")
	case errors.Is(err, raft.ErrEnqueueTimeout):
		return fleet.Errorf(fleet.Busy, "the write could not enter the log's queue in time; nothing was written")
	case errors.Is(err, raft.ErrLeadershipLost), errors.Is(err, raft.ErrAbortedByRestore),
		errors.Is(err, raft.ErrRaftShutdown), errors.Is(err, errLate):
		return fleet.Errorf(fleet.OutcomeUnknown, "the write may or may not have happened: %v", err).
			WithHint("send it again with the same request id to find out")
	}
	return fleet.AsError(err)
}

// explainRead is explain for what changes nothing: its failure is certain.
func (n *Node) explainRead(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, raft.ErrNotLeader), errors.Is(err, raft.ErrLeadershipLost):
		return n.noLeader()
	case errors.Is(err, errLate), errors.Is(err, raft.ErrEnqueueTimeout):
		return fleet.Errorf(fleet.NoLeader, "no quorum confirmed this leader in time")
	case errors.Is(err, raft.ErrRaftShutdown):
		return fleet.Errorf(fleet.NotReady, "this peer is stopping")
	}
	return n.explain(err)
}

// noLeader says that this peer does not lead, and who does as far as it knows.
func (n *Node) noLeader() error {
	if addr, id := n.raft.LeaderWithID(); id != "" && string(id) != n.cfg.ID {
		return fleet.Errorf(fleet.NoLeader, "peer %s does not lead", n.cfg.ID).WithHint("peer %s (raft %s) does", id, addr)
	}
	return fleet.Errorf(fleet.NoLeader, "the cluster has no leader that peer %s knows of", n.cfg.ID).
		WithHint("an election takes a few seconds; without a majority of the peers there is none")
}
