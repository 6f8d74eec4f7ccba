package consensus

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/hashicorp/raft"

	"berth/fleet"
)

// askEvery is how often a follower asks its leader how far the cluster has committed, at a multiplier of 1.
const askEvery = 200 * time.Millisecond

// knowledge is what a peer knows of the cluster's progress: Commit was the commit index, or less than it, at As Of.
type knowledge struct {
	term   uint64
	commit uint64
	asOf   time.Time // zero: never heard
}

// Knowledge gives the index applied here, the newest commit index of the leader known here, and the age of that pair: -1
// if this peer has never heard one. On the leader the age runs from the last moment at which a quorum is known to have
// followed it, so a leader that was cut off or paused reports its true age from its first instruction on.
//
// A follower measures from when it asked, and adds the age that its leader answers, so no clock is compared with another.
func (n *Node) Knowledge() (applied, commit uint64, age time.Duration) {
	n.observe()
	k := n.known.get()
	applied = n.AppliedIndex()
	if k.asOf.IsZero() {
		return applied, k.commit, -1
	}
	return applied, k.commit, time.Since(k.asOf)
}

// CaughtUp reports whether the machine has, since this peer's start, once applied everything that was committed at a
// moment after that start. Before it, the state is that of the last snapshot, or empty.
func (n *Node) CaughtUp() bool { return n.caughtUp.Load() }

// CommitIndex is the newest commit index known here; see Knowledge for its age.
func (n *Node) CommitIndex() uint64 { return max(n.known.get().commit, n.raft.CommitIndex()) }

// cell is the newest knowledge.
type cell struct {
	mu sync.Mutex
	k  knowledge
}

func (c *cell) get() knowledge {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.k
}

// learn keeps the newer of two, by the moment it speaks of.
func (c *cell) learn(k knowledge) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if k.asOf.After(c.k.asOf) {
		k.commit = max(k.commit, c.k.commit)
		c.k = k
	}
}

// observe learns from this peer's own leadership, if it has any. Before the barrier of its term a leader's commit index
// may lie behind that of the leader before it, so it then knows nothing.
func (n *Node) observe() (knowledge, bool) {
	now := time.Now()
	term := n.raft.CurrentTerm()
	if n.established.Load() != term || n.raft.State() != raft.Leader {
		return knowledge{}, false
	}
	asOf := n.ledger.confirmed(term, raft.ServerID(n.cfg.ID), n.servers(), now)
	k := knowledge{term, n.raft.CommitIndex(), asOf} // in this order: the index is at least that of the moment
	if asOf.IsZero() {
		return knowledge{}, false
	}
	n.known.learn(k)
	return k, true
}

// progressAnswer is the answer to kindAsk; empty from whoever does not lead. The age is a duration: no two clocks are
// compared.
type progressAnswer struct {
	Leading bool          `json:"leading"`
	Member  bool          `json:"member"` // whether the one who asks is in the configuration
	Term    uint64        `json:"term"`
	Commit  uint64        `json:"commit"`
	Age     time.Duration `json:"age_ns"`
}

func (n *Node) answerProgress(from string) progressAnswer {
	k, ok := n.observe()
	if !ok {
		return progressAnswer{}
	}
	return progressAnswer{Leading: true, Member: n.isMember(from), Term: k.term, Commit: k.commit, Age: time.Since(k.asOf)}
}

// follow asks the leader, whoever it is, until the node ends.
func (n *Node) follow() {
	var line askLine
	defer line.hangUp()
	for turn := 0; n.ctx.Err() == nil; turn++ {
		if to := n.whomToAsk(turn); to.ID == "" {
			line.hangUp()
			n.observe()
		} else {
			n.followOnce(&line, to)
		}
		pause(n.ctx, n.cfg.Timings.scale(askEvery))
	}
}

// whomToAsk gives the leader, nobody on the leader itself, and each peer in turn while no leader is known here: a peer
// that was removed hears of no leader any more.
func (n *Node) whomToAsk(turn int) Candidate {
	addr, id := n.raft.LeaderWithID()
	if id != "" && string(id) != n.cfg.ID {
		return Candidate{string(id), string(addr)}
	}
	others := slices.DeleteFunc(n.servers(), func(s raft.Server) bool { return string(s.ID) == n.cfg.ID })
	if id != "" || len(others) == 0 {
		return Candidate{}
	}
	s := others[turn%len(others)]
	return Candidate{string(s.ID), string(s.Address)}
}

func (n *Node) followOnce(line *askLine, to Candidate) {
	asked := time.Now()
	a, err := line.ask(n, to)
	switch {
	case err != nil:
		line.hangUp()
		return
	case !a.Leading:
		return
	case !a.Member:
		n.fatal(fmt.Errorf("peer %s was %w %s; to use this machine again, move its data directory away and join anew",
			n.cfg.ID, ErrRemoved, n.Cluster()))
		return
	case n.raft.State() == raft.Shutdown:
		n.fatal(fmt.Errorf("raft has ended by itself in peer %s, which is still a member of cluster %s; it goes on after a restart", n.cfg.ID, n.Cluster()))
		return
	case a.Term < n.raft.CurrentTerm():
		return
	}
	n.known.learn(knowledge{a.Term, a.Commit, asked.Add(-a.Age)})
	if !n.caughtUp.Load() && n.AppliedIndex() >= a.Commit {
		n.caughtUp.Store(true)
		n.cfg.Log.Info("caught up with the cluster", "index", a.Commit, "leader", to.ID)
	}
}

// askLine is a call connection that is kept open to one leader.
type askLine struct {
	to   Candidate
	conn net.Conn
}

func (l *askLine) hangUp() {
	if l.conn != nil {
		_ = l.conn.Close()
		l.conn = nil
	}
}

func (l *askLine) ask(n *Node, to Candidate) (progressAnswer, error) {
	ctx, cancel := context.WithTimeout(n.ctx, dialWait)
	defer cancel()
	if l.to != to {
		l.hangUp()
	}
	if l.conn == nil {
		conn, _, err := n.port.dial(ctx, kindCall, to)
		if err != nil {
			return progressAnswer{}, err
		}
		l.to, l.conn = to, conn
	}
	var a progressAnswer
	err := exchange(ctx, l.conn, request{Kind: kindAsk}, &a)
	return a, err
}

// AppliedIndex is the index up to which this peer's machine has applied everything. raft's own figure runs ahead of
// the machine, and the machine does not see raft's empty entries; both are settled here.
func (n *Node) AppliedIndex() uint64 {
	sent := n.raft.AppliedIndex()
	at := max(n.adapter.seen.Load(), n.passed.Load())
	if at >= sent || n.adapter.stopped.Load() {
		return at
	}
	var l raft.Log
	for next := at + 1; next <= sent; next++ {
		err := n.logs.GetLog(next, &l)
		if err == nil && (l.Type == raft.LogNoop || l.Type == raft.LogBarrier) {
			at = next
			continue
		}
		// An entry that the machine has not had yet, unless a snapshot was taken up in its place.
		if err == nil && !n.adapter.restored.Load() {
			break
		}
		s := n.snapshotIndex()
		if s < next {
			break
		}
		at, next = s, s
		n.adapter.restored.Store(false)
	}
	storeMax(&n.passed, at)
	return at
}

// snapshotIndex is the index of the newest snapshot, which the machine has always passed.
func (n *Node) snapshotIndex() uint64 {
	s, _ := strconv.ParseUint(n.raft.Stats()["last_snapshot_index"], 10, 64)
	return s
}

// WaitApplied returns when the machine has applied the index. Its error is fleet.NotReady if the context, or
// Timings.Wait, ends first.
func (n *Node) WaitApplied(ctx context.Context, index uint64) error {
	ctx, cancel := context.WithTimeout(ctx, n.cfg.Timings.Wait)
	defer cancel()
	for {
		next := n.adapter.next()
		if n.AppliedIndex() >= index {
			return nil
		}
		// raft's empty entries wake nobody.
		tick := time.NewTimer(20 * time.Millisecond)
		select {
		case <-next:
		case <-tick.C:
		case <-ctx.Done():
			return fleet.Errorf(fleet.NotReady, "peer %s has applied index %d, not yet %d", n.cfg.ID, n.AppliedIndex(), index)
		case <-n.ctx.Done():
			return fleet.Errorf(fleet.NotReady, "peer %s is stopping", n.cfg.ID)
		}
		tick.Stop()
	}
}

// ReadIndex gives the commit index that a read must have applied to be linearizable: it is noted first, then a quorum
// confirms that this peer led when it was noted (the ReadIndex of the raft thesis, §6.4). Only a leader whose barrier
// is behind it can give one. The caller then waits for it with WaitApplied, on any peer.
func (n *Node) ReadIndex(ctx context.Context) (uint64, error) {
	term := n.raft.CurrentTerm()
	if n.established.Load() != term || !n.IsLeader() {
		return 0, n.noLeader()
	}
	index := n.raft.CommitIndex()
	if err := n.Verify(ctx); err != nil {
		return 0, err
	}
	return index, nil
}

// exchange sends one request and reads its answer.
func exchange(ctx context.Context, conn net.Conn, q request, a any) error {
	if deadline, ok := ctx.Deadline(); ok {
		_ = conn.SetDeadline(deadline)
	}
	if err := writeFrame(conn, q); err != nil {
		return err
	}
	var reply struct {
		Error *fleet.Error    `json:"error"`
		Body  json.RawMessage `json:"body"`
	}
	if err := readFrame(conn, &reply); err != nil {
		return err
	}
	if reply.Error != nil {
		return reply.Error
	}
	if err := json.Unmarshal(reply.Body, a); err != nil {
		return errors.Join(fmt.Errorf("answer to %s", q.Kind), err)
	}
	return nil
}
