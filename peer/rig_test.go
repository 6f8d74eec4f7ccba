package peer

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"os"
	"slices"
	"sync"
	"testing"
	"time"

	"berth/admin/client"
	"berth/fleet"
	"berth/fleet/wire"
	"berth/gossip"
	"berth/internal/listen"
	"berth/internal/memnet"
)

// hub is a gossip that always works, but for what a test takes from it.
type hub struct {
	mu      sync.Mutex
	members map[string]member
}

func (h *hub) set(m member) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.members[m.Role+m.Name] = m
}

func (h *hub) drop(role, name string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.members, role+name)
}

func (h *hub) living() []member {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Collect(maps.Values(h.members))
}

// seat is one peer's place in the hub.
type seat struct {
	*hub
	me member
}

func (seat) joined(string) error         { return nil }
func (seat) Events() <-chan gossip.Event { return nil }

func (s seat) Run(ctx context.Context) error {
	s.set(s.me)
	<-ctx.Done()
	s.drop(s.me.Role, s.me.Name)
	return nil
}

// rig is a cluster in a bubble.
type rig struct {
	t     *testing.T
	net   *memnet.Network
	hub   *hub
	start time.Time
	peers map[string]*running
	dead  []*running
	log   *slog.Logger
	// gossip: the real one between the peers, instead of the hub.
	gossip bool
	tune   func(*Config) // nil: as they are
}

type running struct {
	*Peer
	host *memnet.Host
	end  context.CancelFunc
	done chan error
}

func newRig(t *testing.T) *rig {
	r := &rig{
		t: t, net: memnet.New(1), hub: &hub{members: make(map[string]member)}, start: time.Now().Add(-time.Hour),
		peers: make(map[string]*running), log: slog.New(slog.DiscardHandler),
	}
	if testing.Verbose() {
		r.log = slog.New(slog.NewTextHandler(os.Stderr, nil))
	}
	r.net.SetLatency(200 * time.Microsecond)
	return r
}

// ip are the addresses of the peers' machines; memberlist knows no names.
var ip = map[string]string{"peer-1": "192.0.2.1", "peer-2": "192.0.2.2", "peer-3": "192.0.2.3", "peer-4": "192.0.2.4"}

func resolve(_ context.Context, host string) ([]string, error) {
	if addr, ok := ip[host]; ok {
		return []string{addr}, nil
	}
	return nil, fmt.Errorf("no such host: %s", host)
}

func (r *rig) config(name, dir string, expect int) Config {
	at := func(port int) Endpoint { return Endpoint{Bind: fmt.Sprintf("%s:%d", name, port)} }
	return Config{
		Name: name, DataDir: dir, InMemory: dir == "", HTTP: at(PortHTTP), Raft: at(PortRaft), Gossip: at(PortGossip),
		Join: []string{"peer-1"}, BootstrapExpect: expect, Policy: listen.Policy{InsecureNoTLS: true}, Network: r.net.Host(name, ip[name]), Resolve: resolve,
		Clock: func() time.Duration { return time.Since(r.start) }, Log: r.log.With("peer", name), Version: "test",
	}
}

// run starts a peer; dir "" keeps it in memory.
func (r *rig) run(name, dir string, expect int) *running {
	r.t.Helper()
	c := r.config(name, dir, expect)
	if r.tune != nil {
		r.tune(&c)
	}
	p, err := New(c)
	if err != nil {
		r.t.Fatal(err)
	}
	if !r.gossip {
		p.gossip = func(_ context.Context, _ Config, self selfInfo) (gossiper, error) {
			return seat{r.hub, member{Role: rolePeer, Name: name, Instance: self.instance, HTTP: self.http, Raft: self.raft}}, nil
		}
	}
	ctx, end := context.WithCancel(context.Background())
	one := &running{Peer: p, host: r.net.Host(name, ip[name]), end: end, done: make(chan error, 1)}
	go func() { one.done <- p.Run(ctx) }()
	r.peers[name] = one
	return one
}

// three starts a cluster of three peers in memory.
func (r *rig) three() {
	for _, name := range []string{"peer-1", "peer-2", "peer-3"} {
		r.run(name, "", 3)
	}
}

// stop ends a peer as an operator does.
func (r *rig) stop(name string) {
	r.t.Helper()
	one := r.peers[name]
	delete(r.peers, name)
	one.end()
	if err := <-one.done; err != nil {
		r.t.Errorf("peer %s ended with %v", name, err)
	}
}

// kill ends a peer as SIGKILL does: nothing that it would still say reaches anyone. What is left of it in this process is joined by stopAll.
func (r *rig) kill(name string) {
	one := r.peers[name]
	delete(r.peers, name)
	one.host.Kill()
	r.hub.drop(rolePeer, name)
	one.end()
	r.dead = append(r.dead, one)
}

func (r *rig) stopAll() {
	for _, name := range slices.Sorted(maps.Keys(r.peers)) {
		r.stop(name)
	}
	for _, one := range r.dead {
		<-one.done
	}
	r.dead = nil
}

// until waits for something to become true.
func (r *rig) until(limit time.Duration, what string, ok func() bool) time.Duration {
	r.t.Helper()
	began := time.Now()
	for !ok() {
		if time.Since(began) > limit {
			r.t.Fatalf("not within %s: %s", limit, what)
		}
		time.Sleep(20 * time.Millisecond)
	}
	return time.Since(began)
}

// leader waits for a peer that leads and takes writes.
func (r *rig) leader() string {
	r.t.Helper()
	var name string
	r.until(30*time.Second, "a leader", func() bool {
		for n, p := range r.peers {
			if p.board.Observed().AgeSeconds == 0 && p.State().Cluster().ID != "" {
				name = n
				return true
			}
		}
		return false
	})
	return name
}

func (r *rig) someFollower() string {
	leader := r.leader()
	for _, n := range slices.Sorted(maps.Keys(r.peers)) {
		if n != leader {
			return n
		}
	}
	r.t.Fatal("no follower")
	return ""
}

// client speaks to the named peers, from a host of its own.
func (r *rig) client(peers ...string) *client.Client {
	r.t.Helper()
	transport := listen.Transport(r.net.Host("operator"))
	transport.DisableKeepAlives = true
	c, err := client.New(client.Config{Addrs: peers, HTTP: &http.Client{Transport: transport}, Agent: "test"})
	if err != nil {
		r.t.Fatal(err)
	}
	return c
}

// spec is a model of one simulated card.
func spec(name string, min, max int) fleet.ModelSpec {
	s := fleet.DefaultedSpec()
	s.Version, s.Kind, s.Name = fleet.SpecVersion, "model", name
	s.Engine = fleet.EngineSpec{Driver: "sim", Weights: name}
	s.Placement.GPUsPerNode = 1
	s.Replicas = fleet.ReplicaCount{Min: min, Max: max}
	s.Drain = fleet.DrainSpec{Deadline: fleet.Duration(time.Minute), Minimum: fleet.Duration(time.Second)}
	return s
}

// ready counts the ready replicas of a model as one peer sees them.
func (p *running) ready(model string) int {
	n := 0
	for rep := range p.State().ReplicasOf(model) {
		if rep.State == fleet.Ready {
			n++
		}
	}
	return n
}

// apply writes a model through the first of the peers that takes it, for as long as an election may take.
func (r *rig) apply(peers []string, s fleet.ModelSpec) wire.ApplyAnswer {
	r.t.Helper()
	var answer wire.ApplyAnswer
	r.until(10*time.Second, "a peer takes the write", func() bool {
		a, err := r.client(peers...).Apply(r.t.Context(), s, client.ApplyOptions{})
		if err != nil && !errors.Is(err, fleet.NoLeader) && !errors.Is(err, fleet.OutcomeUnknown) && !errors.Is(err, fleet.NotReady) {
			r.t.Fatalf("apply %s: %v", s.Name, err)
		}
		answer = a
		return err == nil
	})
	return answer
}
