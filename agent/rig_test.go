package agent_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"berth/agent"
	"berth/agent/shim"
	"berth/fleet"
	"berth/fleet/wire"
	"berth/internal/memnet"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	node    = "gpu-017"
	host    = "192.0.2.17"
	replica = "r-1.10.1"
)

// rig is a machine with an agent on it, and peers that a test plays.
type rig struct {
	t       *testing.T
	host    *memnet.Host
	dir     string
	began   time.Time
	maker   *maker
	peers   *peers
	cards   *cards
	driver  *driver
	log     *logBuffer
	adjust  func(*agent.Config)
	cancel  context.CancelFunc
	running chan error
}

func inBubble(t *testing.T, test func(*testing.T, *rig)) {
	t.Helper()
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		g := &rig{t: t, host: memnet.New(1).Host(host), dir: dir, began: time.Now(), maker: newMaker(), peers: newPeers(), cards: newCards(2),
			driver: &driver{}, log: &logBuffer{}, adjust: func(*agent.Config) {}}
		defer g.stop()
		test(t, g)
	})
}

func (g *rig) config() agent.Config {
	c := agent.Config{
		Name: node, DataDir: g.dir, Release: "test", EngineBind: host, EnginePorts: agent.PortRange{First: 20000, Last: 20019},
		Engines:   map[string]agent.EngineConfig{"sim": {AllowArgs: []string{"--load-time"}}},
		Inventory: g.cards, Drivers: []agent.Driver{g.driver}, Maker: g.maker, Peers: g.peers, Addresses: g.peers,
		Network: g.host, Logger: slog.New(slog.NewTextHandler(g.log, nil)), Sockets: g.dir,
	}
	c.Policy.InsecureNoTLS = true
	g.adjust(&c)
	return c
}

// start starts the agent and waits until it has nothing more to do at this moment.
func (g *rig) start() {
	g.t.Helper()
	a, err := agent.New(g.config())
	if err != nil {
		g.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(g.t.Context())
	g.cancel, g.running = cancel, make(chan error, 1)
	go func() { g.running <- a.Run(ctx) }()
	synctest.Wait()
}

// stop ends the agent as SIGTERM does.
func (g *rig) stop() {
	g.t.Helper()
	if g.cancel == nil {
		return
	}
	g.cancel()
	if err := <-g.running; err != nil {
		g.t.Errorf("the agent ended with %v", err)
	}
	g.cancel = nil
}

func (g *rig) after(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// order gives the node these orders at an index.
func (g *rig) order(n uint64, orders ...wire.Order) {
	g.peers.order(fleet.Index{Epoch: 1, N: n}, orders...)
	g.after(time.Second)
}

// reported lists what the agent has reported of a replica, as words.
func (g *rig) reported() string {
	var words []string
	for _, t := range g.peers.items() {
		words = append(words, t.To)
	}
	return strings.Join(words, " ")
}

func (g *rig) wantReported(want string) {
	g.t.Helper()
	if got := g.reported(); got != want {
		g.t.Errorf("reported %q, want %q", got, want)
	}
}

// last is the newest transition.
func (g *rig) last() wire.Transition {
	g.t.Helper()
	all := g.peers.items()
	if len(all) == 0 {
		g.t.Fatal("nothing was reported")
	}
	return all[len(all)-1]
}

// shim is the only live shim.
func (g *rig) shim() *handle {
	g.t.Helper()
	live := g.maker.live()
	if len(live) != 1 {
		g.t.Fatalf("%d live shims, want 1", len(live))
	}
	return live[0]
}

func run(n uint64, change ...func(*wire.Order)) wire.Order {
	spec := fleet.DefaultedSpec()
	spec.Name, spec.Engine = "m", fleet.EngineSpec{Driver: "sim", Weights: "m"}
	o := wire.Order{
		ID: fleet.Index{Epoch: 1, N: n}, Action: wire.ActionRun, Replica: replica, Model: "m", Generation: 1, RunHash: spec.RunHash(), Start: 1,
		Spec: spec, Claims: []fleet.Claim{{GPU: "GPU-1"}}, Ranks: []wire.RankAddress{{Node: node, Host: host, GPUs: 1}},
	}
	for _, f := range change {
		f(&o)
	}
	return o
}

func stop(n uint64, change ...func(*wire.Order)) wire.Order {
	o := run(n)
	o.Action, o.Drain = wire.ActionStop, &fleet.Drain{Reason: "asked", Minimum: fleet.Duration(5 * time.Second), Deadline: fleet.Duration(time.Minute)}
	for _, f := range change {
		f(&o)
	}
	return o
}

// rank makes an order one of a gang of two.
func rank(n int, master string, start uint64) func(*wire.Order) {
	return func(o *wire.Order) {
		o.Rank, o.Master, o.Start = n, master, start
		o.Ranks = []wire.RankAddress{{Node: node, Host: host, GPUs: 1}, {Node: "gpu-018", Host: "192.0.2.18", GPUs: 1}}
	}
}

// logBuffer keeps what was logged.
type logBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *logBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *logBuffer) count(s string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Count(l.b.String(), s)
}

// cards is a machine's inventory as a test sets it.
type cards struct {
	mu    sync.Mutex
	inv   fleet.Inventory
	err   error
	hang  chan struct{} // Measure and Load wait for it, whatever their context says
	busy  map[string]bool
	asked int
}

func newCards(n int) *cards {
	c := &cards{busy: map[string]bool{}, inv: fleet.Inventory{Source: "file", CPUs: 8, Memory: 64 * fleet.GiB}}
	for i := range n {
		c.inv.GPUs = append(c.inv.GPUs, fleet.GPU{UUID: fmt.Sprintf("GPU-%d", i), Index: i, Class: "l40s-48gb", Memory: 48 * fleet.GiB, Health: fleet.Healthy})
	}
	return c
}

func (c *cards) set(f func(*cards)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	f(c)
}

func (c *cards) wait() {
	c.mu.Lock()
	hang := c.hang
	c.mu.Unlock()
	if hang != nil {
		<-hang
	}
}

func (c *cards) Measure(context.Context) (fleet.Inventory, error) {
	c.wait()
	c.mu.Lock()
	defer c.mu.Unlock()
	inv := c.inv
	inv.GPUs = append([]fleet.GPU(nil), c.inv.GPUs...)
	return inv, c.err
}

func (c *cards) Free(_ context.Context, claims []fleet.Claim) (bool, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.asked++
	for _, claim := range claims {
		if c.busy[claim.GPU] {
			return false, nil
		}
	}
	return true, nil
}

func (c *cards) Load(context.Context) []wire.GPULoad {
	c.wait()
	return []wire.GPULoad{{UUID: "GPU-0"}}
}

// driver is the simulated engine's, as far as an agent can tell.
type driver struct {
	mu     sync.Mutex
	inputs []agent.LaunchInput
	err    error
	absent bool
}

func (d *driver) Name() string { return "sim" }

func (d *driver) Offer(context.Context) (fleet.EngineOffer, bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return fleet.EngineOffer{Version: "0.33.0", SpanNodes: true}, !d.absent
}

func (d *driver) Launch(in agent.LaunchInput) (shim.Program, shim.Recipe, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.inputs = append(d.inputs, in)
	p := shim.Program{Args: []string{"engine"}, Engine: fmt.Sprintf("127.0.0.1:%d", in.Port), Master: in.Master}
	if in.Order.Rank > 0 {
		p.Engine = ""
	}
	return p, shim.Recipe{Health: "/health"}, d.err
}

func (d *driver) input(i int) agent.LaunchInput {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.inputs[i]
}

var errDown = errors.New("cannot reach the peer")
