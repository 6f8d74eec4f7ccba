package consensus

import (
	"context"
	"fmt"
	"log/slog"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"berth/fleet"
	"berth/fsm"
	"berth/internal/listen"
	"berth/internal/memnet"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// rig is a set of peers in one bubble.
type rig struct {
	t    *testing.T
	net  *memnet.Network
	dir  string // empty: in memory
	tune func(*Config)
	all  map[string]*peer
}

func newRig(t *testing.T) *rig {
	r := &rig{t: t, net: memnet.New(1), all: map[string]*peer{}}
	r.net.SetLatency(time.Millisecond)
	t.Cleanup(func() {
		for _, p := range r.all {
			p.stop()
		}
	})
	return r
}

// peer is a node with its loops: what the peer role does with it, as far as tests need it.
type peer struct {
	*Node
	host    *memnet.Host
	machine *fsm.Machine
	log     *lines
	cancel  context.CancelFunc
	wg      sync.WaitGroup

	mu     sync.Mutex
	err    error // of Run
	terms  []uint64
	fatals []error
}

func (r *rig) config(id string) Config {
	c := Config{
		ID: id, Network: r.net.Host(id), Bind: id + ":7301", Machine: fsm.New(),
		Policy: listen.Policy{InsecureNoTLS: true},
	}
	if r.dir != "" {
		c.DataDir = filepath.Join(r.dir, id)
	}
	if r.tune != nil {
		r.tune(&c)
	}
	return c
}

// start opens a peer, which bootstraps with the others if expect is not negative.
func (r *rig) start(id string, expect int) *peer {
	r.t.Helper()
	c := r.config(id)
	p := &peer{host: r.net.Host(id), machine: c.Machine, log: new(lines)}
	c.Log = slog.New(slog.NewTextHandler(p.log, nil)).With("peer", id)
	c.Fatal = func(err error) {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.fatals = append(p.fatals, err)
	}
	n, err := Open(c)
	if err != nil {
		r.t.Fatalf("open %s: %v", id, err)
	}
	p.Node = n
	ctx, cancel := context.WithCancel(context.Background())
	p.cancel = cancel
	p.wg.Go(func() {
		err := n.Run(ctx)
		p.mu.Lock()
		defer p.mu.Unlock()
		p.err = err
	})
	if expect >= 0 {
		p.wg.Go(func() { _ = n.Bootstrap(ctx, expect, r.candidates) })
	}
	p.wg.Go(func() { _ = n.Lead(ctx, p.duties) })
	r.all[id] = p
	return p
}

func (r *rig) candidates() []Candidate {
	return []Candidate{{"peer-1", "peer-1:7301"}, {"peer-2", "peer-2:7301"}, {"peer-3", "peer-3:7301"}, {"", "peer-4:7301"}}
}

func (p *peer) duties(ctx context.Context, term uint64) error {
	p.mu.Lock()
	p.terms = append(p.terms, term)
	p.mu.Unlock()
	_, _ = p.Propose(ctx, fsm.Meta{}, fsm.ClusterCreate{ID: p.Cluster()})
	var silent sync.WaitGroup
	silent.Go(func() { _ = p.MendSilent(ctx) })
	defer silent.Wait()
	return p.PromoteWhenReady(ctx, nil)
}

// stop ends a peer and returns what Run returned.
func (p *peer) stop() error {
	p.cancel()
	p.wg.Wait()
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.err
}

// kill ends a peer as SIGKILL does: its connections break first.
func (r *rig) kill(id string) {
	p := r.all[id]
	p.host.Kill()
	_ = p.stop()
	delete(r.all, id)
}

// three starts the usual cluster and waits for its leader.
func (r *rig) three() *peer {
	for i := 1; i <= 3; i++ {
		r.start(fmt.Sprintf("peer-%d", i), 3)
	}
	return r.leader()
}

// until waits for a condition, a minute at most. The bubble's clock makes it exact and free.
func (r *rig) until(what string, cond func() bool) {
	r.t.Helper()
	for deadline := time.Now().Add(time.Minute); !cond(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			for id, p := range r.all {
				r.t.Logf("%s:\n%s", id, p.log.text())
			}
			r.t.Fatalf("not within a minute: %s", what)
		}
	}
}

// leader waits for a leader that takes writes.
func (r *rig) leader() *peer {
	r.t.Helper()
	var found *peer
	r.until("a leader with a cluster", func() bool {
		for _, p := range r.all {
			if p.IsLeader() && p.established.Load() == p.Term() && p.machine.State().Cluster().ID != "" {
				found = p
				return true
			}
		}
		return false
	})
	return found
}

// write commits one row.
func (r *rig) write(p *peer, id string) {
	r.t.Helper()
	if err := put(p, id); err != nil {
		r.t.Fatalf("write %s at %s: %v", id, p.ID(), err)
	}
}

func put(p *peer, id string) error {
	_, err := putIndex(p, id)
	return err
}

// putIndex commits one row and gives the index of its entry.
func putIndex(p *peer, id string) (uint64, error) {
	out, err := p.Propose(context.Background(), fsm.Meta{Request: id}, fsm.ServerAnnounce{Server: fleet.Server{ID: id, MaxLevel: 1}})
	if err != nil {
		return 0, err
	}
	if out.Err != nil {
		return 0, out.Err
	}
	return out.Index.N, nil
}

// same waits until all peers have applied what p has, and compares their states.
func (r *rig) same(p *peer) {
	r.t.Helper()
	index := p.AppliedIndex()
	want := p.machine.State().Fingerprint()
	for id, q := range r.all {
		if err := q.WaitApplied(context.Background(), index); err != nil {
			r.t.Fatalf("%s: %v", id, err)
		}
		if got := q.machine.State().Fingerprint(); got != want {
			r.t.Errorf("%s has fingerprint %s, %s has %s", id, got, p.ID(), want)
		}
	}
}

// lines keeps log lines.
type lines struct {
	mu  sync.Mutex
	all []byte
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all = append(l.all, p...)
	return len(p), nil
}

func (l *lines) text() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return string(l.all)
}
