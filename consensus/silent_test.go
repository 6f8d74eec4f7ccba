package consensus

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/raft"

	"berth/internal/memnet"
)

// deaf is a network on which a connection that carries a certain word to a certain address is never answered again, whatever its deadline: what
// raft issue 612 looks like from outside. times bounds how often; -1: always.
type deaf struct {
	*memnet.Host
	word []byte
	to   string

	mu    sync.Mutex
	times int
}

func (d *deaf) Dial(ctx context.Context, addr string) (net.Conn, error) {
	c, err := d.Host.Dial(ctx, addr)
	if err != nil || addr != d.to {
		return c, err
	}
	return &deafConn{Conn: c, net: d, closed: make(chan struct{})}, nil
}

func (d *deaf) hears(p []byte) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !bytes.Contains(p, d.word) || d.times == 0 {
		return true
	}
	d.times--
	return false
}

type deafConn struct {
	net.Conn
	net    *deaf
	mu     sync.Mutex
	silent bool
	once   sync.Once
	closed chan struct{}
}

func (c *deafConn) Write(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.silent = c.silent || !c.net.hears(p); c.silent {
		return len(p), nil // and nothing of it arrives
	}
	return c.Conn.Write(p)
}

func (c *deafConn) Read(p []byte) (int, error) {
	c.mu.Lock()
	silent := c.silent
	c.mu.Unlock()
	if silent {
		<-c.closed
		return 0, net.ErrClosed
	}
	return c.Conn.Read(p)
}

func (c *deafConn) Close() error {
	c.once.Do(func() { close(c.closed) })
	return c.Conn.Close()
}

// silence makes a cluster in which peer-3 hears nothing of what the leader, another one, writes under the id "unheard".
func (r *rig) silence(times int) (leader, follower *peer) {
	r.tune = func(c *Config) {
		c.Network = &deaf{Host: c.Network.(*memnet.Host), word: []byte("unheard"), to: "peer-3:7301", times: times}
	}
	leader = r.three()
	time.Sleep(time.Second)
	if leader.ID() == "peer-3" {
		if err := leader.Transfer(r.t.Context(), "peer-1"); err != nil {
			r.t.Fatal(err)
		}
		leader = r.leader()
	}
	for range 2 { // both others have one machine each; the second takes over in its own
		r.write(leader, "heard")
	}
	return leader, r.all["peer-3"]
}

func (p *peer) has(id string) bool {
	_, ok := p.machine.State().Server(id)
	return ok
}

// A follower that answers heartbeats alone is found and cured by cutting its connections.
func TestASilentFollowerHearsAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		leader, follower := r.silence(1)
		began := time.Now()
		r.write(leader, "unheard")
		time.Sleep(15 * time.Second)
		if follower.has("unheard") {
			t.Fatal("the follower heard it: the test shows nothing")
		}
		r.until("the follower has it", func() bool { return follower.has("unheard") })
		if took := time.Since(began); took > 30*time.Second {
			t.Errorf("cured after %v", took)
		}
		if !leader.IsLeader() || !strings.Contains(leader.log.text(), "cutting its connections") {
			t.Errorf("leader %v; log:\n%s", leader.IsLeader(), leader.log.text())
		}
	})
}

// Where cutting does not help, another peer leads, and the follower hears from that one.
func TestASilentFollowerGetsAnotherLeader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		leader, follower := r.silence(-1)
		r.write(leader, "unheard")
		time.Sleep(75 * time.Second)
		if !leader.IsLeader() || follower.has("unheard") {
			t.Fatalf("leads %v, heard %v: the test shows nothing", leader.IsLeader(), follower.has("unheard"))
		}
		for _, p := range r.all { // the next leader's way is free
			if d, ok := p.cfg.Network.(*deaf); ok && p != leader {
				d.mu.Lock()
				d.times = 0
				d.mu.Unlock()
			}
		}
		r.until("the follower has it", func() bool { return follower.has("unheard") })
		if got := strings.Count(leader.log.text(), "cutting its connections"); leader.IsLeader() || got != silentCuts {
			t.Errorf("after %d cuts the same peer leads: %v", got, leader.IsLeader())
		}
	})
}

// A peer whose log contradicts a snapshot drops the log and is whole after a restart, instead of being sent the snapshot for ever.
func TestALogThatContradictsASnapshotIsDropped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.dir = t.TempDir()
		r.tune = func(c *Config) {
			c.Timings = Timings{SnapshotThreshold: 5, TrailingLogs: 5, SnapshotInterval: 100 * time.Millisecond}
		}
		old := r.three()
		time.Sleep(time.Second)
		r.net.Isolate(old.ID())
		var wg sync.WaitGroup
		for i := range 300 { // more than the others will have written when they snapshot
			wg.Go(func() { _ = put(old, fmt.Sprintf("lost-%d", i)) })
		}
		wg.Wait()
		last, err := old.files.store.LastIndex()
		if err != nil {
			t.Fatal(err)
		}
		id := old.ID()
		delete(r.all, id)
		next := r.leader()
		for i := range 60 {
			r.write(next, fmt.Sprintf("kept-%d", i))
		}
		time.Sleep(5 * time.Second)
		if s := next.snapshotIndex(); s == 0 || s >= last {
			t.Fatalf("snapshot at %d, and the old leader's log ends at %d: nothing is contradicted", s, last)
		}
		r.net.HealAll()
		select {
		case <-old.ctx.Done():
		case <-time.After(30 * time.Second):
			t.Fatalf("still there after %d installs", len(next.ledger.progress(raft.ServerID(id), next.Term()).installs))
		}
		if err := old.stop(); !errors.Is(err, ErrContradicted) {
			t.Fatalf("Run: %v", err)
		}
		if n := len(next.ledger.progress(raft.ServerID(id), next.Term()).installs); n > 1 {
			t.Errorf("%d installs before it was found", n)
		}
		back := r.start(id, -1)
		r.until("it has caught up", func() bool { return back.CaughtUp() && back.has("kept-59") })
		if back.has("lost-299") {
			t.Error("it has what was never committed")
		}
		r.same(r.leader())
	})
}
