package consensus

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/raft"
)

// Node is one peer of the cluster.
type Node struct {
	cfg     Config
	me      *identity
	files   *files
	ballast *ballast
	opened  *snapshots
	store   *guardedStore
	port    *port
	logs    *ahead // store, behind raft's cache
	adapter *adapter
	ledger  *ledger
	trans   *transport
	raft    *raft.Raft

	leadership  *leadership
	established atomic.Uint64 // the term whose barrier is behind this peer as its leader
	known       cell
	passed      atomic.Uint64 // see AppliedIndex
	caughtUp    atomic.Bool
	inForce     atomic.Pointer[raft.Configuration] // the last committed one seen go by
	expect      atomic.Int64                       // of Bootstrap, for the promises asked of this peer
	transfer    sync.Mutex                         // one transfer of leadership at a time

	ctx    context.Context // ends when the node does, for whatever reason
	cancel context.CancelFunc
	ended  chan struct{} // closed when raft itself has ended

	mu     sync.Mutex
	closed bool
	failed error          // the first fatal error
	wg     sync.WaitGroup // loops
	calls  sync.WaitGroup // what waits for a future of raft
}

// Open takes the data directory, checks what is in it, opens the raft port and starts raft. A peer that has been in a
// cluster goes on in it; any other waits for Bootstrap. Run must follow.
func Open(c Config) (*Node, error) {
	if err := c.Validate(); err != nil {
		return nil, fmt.Errorf("peer configuration: %w", err)
	}
	c.Timings = c.Timings.withDefaults()
	n := &Node{cfg: c, leadership: newLeadership(), ledger: new(ledger), ended: make(chan struct{})}
	n.ctx, n.cancel = context.WithCancel(context.Background())
	if err := n.open(); err != nil {
		return nil, errors.Join(err, n.Close())
	}
	return n, nil
}

func (n *Node) open() (err error) {
	if n.files, err = openFiles(n.ctx, n.cfg.DataDir, n.cfg.LogStore, n.cfg.Log); err != nil {
		return err
	}
	if err := n.stayed(); err != nil {
		return err
	}
	if n.me, err = loadIdentity(n.cfg.DataDir, n.cfg.ID); err != nil {
		return err
	}
	n.ballast = newBallast(n.cfg)
	n.store = &guardedStore{backing: n.files.store, log: n.cfg.Log, before: n.cfg.BeforeWrite, fatal: n.fatal, full: n.ballast.drop}
	n.opened = &snapshots{SnapshotStore: n.files.snapshots}
	n.adapter = &adapter{machine: n.cfg.Machine, fatal: n.fatal, taken: n.taken, member: func(c raft.Configuration) { n.inForce.Store(&c) }}
	if err := n.settleIdentity(); err != nil {
		return err
	}
	if n.port, err = openPort(n.ctx, n.cfg, n.me); err != nil {
		return err
	}
	n.port.serve, n.port.trust = n.serveCalls, n.me.join
	return n.startRaft()
}

// settleIdentity finishes what a crash may have left half done. A log without an identity is refused: it could be of
// any cluster.
func (n *Node) settleIdentity() error {
	exists, err := raft.HasExistingState(n.files.store, n.files.store, n.files.snapshots)
	me := n.me.get()
	switch {
	case err != nil:
		return fmt.Errorf("read the log of %s: %w", n.cfg.DataDir, err)
	case !exists || me.Cluster != "":
		return nil
	case me.Promise != nil:
		return n.me.join(me.Promise.Cluster)
	}
	return fmt.Errorf("data directory %s has a log but %s names no cluster: restore that file, or move the directory away and join anew",
		n.cfg.DataDir, identityFile)
}

func (n *Node) startRaft() error {
	notify := make(chan bool)
	// The channel is drained for as long as raft lives, also while this node ends: a raft that waits to say that it lost its leadership answers
	// nobody meanwhile, and is then told to end with questions in its queue that it never answers.
	if !n.spawn(func() { n.leadership.drain(notify, n.ended) }) {
		return raft.ErrRaftShutdown
	}
	if err := n.contradictedAtStart(); err != nil {
		return err
	}
	cache, err := raft.NewLogCache(logCacheEntries, n.store)
	if err != nil {
		return err
	}
	n.logs = newAhead(cache, n.stepDown)
	n.trans = newTransport(n.port, n.ledger, n.logs.flush, n.cfg)
	n.raft, err = raft.NewRaft(n.cfg.raftConfig(notify), n.adapter, n.logs, n.store, n.opened, n.trans)
	if err != nil {
		return errors.Join(fmt.Errorf("start raft: %w", err), n.trans.Close())
	}
	leads := func() bool { return leadsOthers(n.raft) }
	n.logs.leads.Store(&leads)
	n.spawn(func() { n.logs.run(n.ended) })
	n.port.start()
	n.spawn(n.follow)
	return nil
}

// Run lives until the context ends or this peer must end, and closes the node. Its error is the reason for which this
// peer must not go on: what Config.Fatal was told, or that it was removed from the cluster.
func (n *Node) Run(ctx context.Context) error {
	select {
	case <-ctx.Done():
	case <-n.ctx.Done():
	}
	return errors.Join(n.failure(), n.Close())
}

// fatal ends this peer. The port goes first: whatever raft believes from here on reaches nobody.
func (n *Node) fatal(err error) {
	n.mu.Lock()
	first := n.failed == nil && !n.closed
	if first {
		n.failed = err
	}
	n.mu.Unlock()
	if !first {
		return
	}
	n.adapter.stopped.Store(true)
	if n.port != nil {
		_ = n.port.silence()
	}
	n.cfg.Log.Error("this peer must not go on", "peer", n.cfg.ID, "error", err)
	if n.cfg.Fatal != nil && !errors.Is(err, ErrRemoved) { // one that was removed misleads nobody, and may be passing on the answer to its own removal
		n.cfg.Fatal(err)
	}
	n.cancel()
}

func (n *Node) failure() error {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.failed
}

// spawn runs fn on a goroutine that Close joins, unless the node is closed.
func (n *Node) spawn(fn func()) bool { return n.spawnOn(&n.wg, fn) }

func (n *Node) spawnOn(wg *sync.WaitGroup, fn func()) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.closed {
		return false
	}
	wg.Go(fn)
	return true
}

// Close ends the node without handing leadership over. Where a disk is stuck it gives up after 10 s and leaves the data
// directory locked, since the stuck write may still land.
func (n *Node) Close() error {
	n.mu.Lock()
	done := n.closed
	n.closed = true
	n.mu.Unlock()
	if done {
		return nil
	}
	n.cancel()
	if !within(closeWait, n.shutdown) {
		return fmt.Errorf("peer %s did not stop within %v: its disk is stuck", n.cfg.ID, closeWait)
	}
	return n.files.close()
}

// shutdown ends port, raft and loops, in this order. On a silenced port raft answers every future within a leader's
// lease; a future that is on its way to the state machine when raft itself is told to end may never be.
func (n *Node) shutdown() {
	if n.port == nil {
		return
	}
	_ = n.port.silence()
	if n.raft != nil {
		within(n.cfg.Timings.scale(2*time.Second), n.calls.Wait)
		_ = n.raft.Shutdown().Error()
		_ = n.trans.Close() // raft forgets it when it ends by itself, as a leader that was removed does
	}
	close(n.ended)
	_ = n.port.Close()
	n.port.wg.Wait()
	within(time.Second, n.calls.Wait) // what raft has not answered by its end it never will, and its caller has gone
	n.wg.Wait()
}

// within runs fn and reports whether it returned in time. If not, fn goes on.
func within(limit time.Duration, fn func()) bool {
	done := make(chan struct{})
	go func() { defer close(done); fn() }()
	t := time.NewTimer(limit)
	defer t.Stop()
	select {
	case <-done:
		return true
	case <-t.C:
		return false
	}
}

// ID is this peer's id.
func (n *Node) ID() string { return n.cfg.ID }

// Address is this peer's raft address as others are told it.
func (n *Node) Address() string { return n.port.addr.String() }

// Cluster is the id of the cluster this peer belongs to; empty while it belongs to none.
func (n *Node) Cluster() string { return n.me.get().Cluster }

// IsLeader reports whether raft believes that this peer leads. Verify asks.
func (n *Node) IsLeader() bool { return n.raft.State() == raft.Leader }

// Term is the newest term known here.
func (n *Node) Term() uint64 { return n.raft.CurrentTerm() }

// Leader gives the leader known here and the term; ok is false when there is none.
func (n *Node) Leader() (id string, term uint64, ok bool) {
	_, leader := n.raft.LeaderWithID()
	return string(leader), n.raft.CurrentTerm(), leader != ""
}

// servers is a copy of the newest configuration, committed or not. raft gives away its own slice.
func (n *Node) servers() []raft.Server {
	f := n.raft.GetConfiguration() // answered from memory: it never waits
	if f.Error() != nil {
		return nil
	}
	return slices.Clone(f.Configuration().Servers)
}

// ErrRemoved is wrapped by Run's error when this peer was removed from its cluster.
var ErrRemoved = errors.New("removed from the cluster")

// isMember reports whether a peer is in the newest configuration, or in the one in force: while a change is under way
// it may be in one of them alone.
func (n *Node) isMember(id string) bool {
	in := n.inForce.Load()
	return contains(n.servers(), id) || in != nil && contains(in.Servers, id)
}

func contains(servers []raft.Server, id string) bool {
	for _, s := range servers {
		if string(s.ID) == id {
			return true
		}
	}
	return false
}

// storeMax raises v to x.
func storeMax(v *atomic.Uint64, x uint64) {
	for old := v.Load(); old < x && !v.CompareAndSwap(old, x); old = v.Load() {
	}
}
