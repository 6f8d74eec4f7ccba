package shim_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"berth/agent/shim"
	"berth/agent/shim/inproc"
	"berth/fleet"
	"berth/fleet/wire"
	"berth/internal/listen"
	"berth/internal/memnet"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const engineAddr = "127.0.0.1:9000"

// script is how a scripted engine behaves in one start.
type script struct {
	load       time.Duration // until it serves
	early      bool          // it listens while it loads, and answers 503
	mutters    time.Duration // time between lines of output while it loads
	dieAfter   time.Duration // from its start; 0: never
	code       int           // of that death
	noToken    time.Duration // how long after load its first token takes
	ignoreTerm bool
	stuck      <-chan struct{} // SIGKILL works only once it is closed
	stopped    *bool           // tokens do not move while it is true
}

type exitError int

func (e exitError) Error() string { return fmt.Sprintf("exit %d", int(e)) }
func (e exitError) ExitCode() int { return int(e) }

// scripted is one start of a scripted engine.
type scripted struct {
	script
	rig   *rig
	x     shim.Exec
	since time.Time
	term  chan struct{}
	once  sync.Once

	mu     sync.Mutex
	tokens int
}

func (e *scripted) Terminate() {
	if !e.ignoreTerm {
		e.once.Do(func() { close(e.term) })
	}
}

func (e *scripted) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var parts sync.WaitGroup
	defer parts.Wait()
	defer cancel(nil)
	if e.dieAfter > 0 {
		defer time.AfterFunc(e.dieAfter, func() { cancel(exitError(e.code)) }).Stop()
	}
	parts.Go(func() {
		select {
		case <-e.term:
			cancel(exitError(0))
		case <-ctx.Done():
		}
	})
	if e.mutters > 0 {
		parts.Go(func() { e.mutter(ctx) })
	}
	if !e.early {
		e.sleep(ctx, e.load)
	}
	if ctx.Err() == nil {
		e.serve(ctx)
	}
	if e.stuck != nil {
		<-e.stuck
	}
	if err, ok := context.Cause(ctx).(exitError); ok && err != 0 {
		fmt.Fprintln(e.x.Output, "cannot load the weights")
		return err
	}
	return nil
}

func (e *scripted) sleep(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}

func (e *scripted) mutter(ctx context.Context) {
	for time.Since(e.since) < e.load && ctx.Err() == nil {
		fmt.Fprintln(e.x.Output, "loading weights")
		e.sleep(ctx, e.mutters)
	}
}

// serve answers until the context ends, and then cuts, as a process that ends does.
func (e *scripted) serve(ctx context.Context) {
	ln, err := e.rig.host.Listen(ctx, engineAddr)
	if err != nil {
		e.rig.t.Error(err)
		return
	}
	_ = listen.ServeHTTP(ctx, ln, e, listen.ServerOptions{Drain: time.Nanosecond})
}

func (e *scripted) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	age := time.Since(e.since)
	switch {
	case age < e.load:
		w.WriteHeader(http.StatusServiceUnavailable)
	case r.URL.Path == "/metrics":
		e.mu.Lock()
		defer e.mu.Unlock()
		fmt.Fprintf(w, "# HELP x y\nvllm:generation_tokens_total{model_name=\"a b\"} %d\nvllm:other 9\n", e.tokens)
	case r.URL.Path == "/health":
	case age < e.load+e.noToken:
		w.WriteHeader(http.StatusInternalServerError)
	default:
		e.answer(w, r)
	}
}

// answer streams one token a second for as long as the body asks: {"seconds": n}.
func (e *scripted) answer(w http.ResponseWriter, r *http.Request) {
	e.rig.saw(r)
	var ask struct{ Seconds int }
	_ = json.NewDecoder(r.Body).Decode(&ask)
	for range ask.Seconds {
		e.sleep(r.Context(), time.Second)
		for e.stopped != nil && *e.stopped && r.Context().Err() == nil {
			e.sleep(r.Context(), time.Second)
		}
		e.mu.Lock()
		e.tokens++
		e.mu.Unlock()
		if _, err := fmt.Fprintln(w, "token"); err != nil {
			return
		}
		_ = http.NewResponseController(w).Flush()
	}
	fmt.Fprintln(w, "end")
}

// rig is a node with one shim over scripted engines, in a bubble.
type rig struct {
	t      *testing.T
	host   *memnet.Host
	node   *inproc.Node
	h      shim.Handle
	began  time.Time
	client *http.Client
	script func(start int) script

	mu     sync.Mutex
	starts []time.Duration
	seen   []*http.Request // that reached an engine's answer, probes included
}

func order(n uint64, change func(*wire.Order)) shim.Order {
	spec := fleet.DefaultedSpec()
	o := wire.Order{
		ID: fleet.Index{Epoch: 1, N: n}, Action: wire.ActionRun, Replica: "r-1.1.1", Model: "m", Start: 1, Spec: spec,
		Ranks: []wire.RankAddress{{Node: "gpu-017"}},
	}
	if change != nil {
		change(&o)
	}
	return shim.Order{Order: o}
}

func stop(n uint64, d fleet.Drain) shim.Order {
	return order(n, func(o *wire.Order) { o.Action, o.Drain = wire.ActionStop, &d })
}

// inBubble runs a test with a rig whose shim has been started.
func inBubble(t *testing.T, s func(start int) script, change func(*shim.Launch), test func(*rig), cards ...func(context.Context, []fleet.Claim) (bool, error)) {
	synctest.Test(t, func(t *testing.T) {
		g := &rig{t: t, host: memnet.New(1).Host("192.0.2.17"), began: time.Now(), script: s}
		began := g.began
		c := inproc.Config{
			Network: g.host, Engines: g.engine, Logger: slog.New(slog.DiscardHandler),
			Clock: func() time.Duration { return time.Since(began) },
		}
		if len(cards) > 0 {
			c.CardsEmpty = cards[0]
		}
		g.node = inproc.NewNode(t.Context(), c)
		defer g.node.Close()
		transport := listen.Transport(g.host)
		defer transport.CloseIdleConnections()
		g.client = &http.Client{Transport: transport}
		l := shim.Launch{
			Order: order(1, nil).Order, Program: shim.Program{Args: []string{"engine"}, Engine: engineAddr},
			Recipe: shim.Recipe{Health: "/health", Token: &shim.Probe{Path: "/v1/completions", Body: json.RawMessage(`{}`)}},
			Bind:   "192.0.2.17", FirstPort: 20000, LastPort: 20010, InsecureNoTLS: true,
		}
		if change != nil {
			change(&l)
		}
		g.start(l)
		test(g)
	})
}

func (g *rig) start(l shim.Launch) {
	g.t.Helper()
	h, err := g.node.Start(g.t.Context(), l)
	if err != nil {
		g.t.Fatal(err)
	}
	g.h = h
}

func (g *rig) engine(x shim.Exec) (inproc.Engine, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.starts = append(g.starts, time.Since(g.began))
	return &scripted{script: g.script(len(g.starts)), rig: g, x: x, since: time.Now(), term: make(chan struct{})}, nil
}

func (g *rig) saw(r *http.Request) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.seen = append(g.seen, r)
}

func (g *rig) startTimes() []time.Duration {
	g.mu.Lock()
	defer g.mu.Unlock()
	return append([]time.Duration(nil), g.starts...)
}

// until waits for a status that pleases, and gives it with the time since the beginning.
func (g *rig) until(what string, pleases func(shim.Status) bool) (shim.Status, time.Duration) {
	g.t.Helper()
	ctx, cancel := context.WithTimeout(g.t.Context(), 24*time.Hour)
	defer cancel()
	for after := uint64(0); ; {
		st, err := g.h.Status(ctx, after)
		if err != nil || ctx.Err() != nil {
			g.t.Fatalf("waiting for %s: %v, %v; status %+v", what, err, ctx.Err(), st)
		}
		if pleases(st) {
			return st, time.Since(g.began)
		}
		after = st.Version
	}
}

func (g *rig) phase(p shim.Phase) (shim.Status, time.Duration) {
	g.t.Helper()
	return g.until(string(p), func(s shim.Status) bool { return s.Phase == p })
}

func (g *rig) order(o shim.Order) {
	g.t.Helper()
	if err := g.h.Order(g.t.Context(), o); err != nil {
		g.t.Fatal(err)
	}
}

// post sends a request of so many seconds through the door; its outcome is what the door or the engine made of it.
func (g *rig) post(seconds int) (outcome string) {
	g.t.Helper()
	st, err := g.h.Status(g.t.Context(), 0)
	if err != nil {
		return err.Error()
	}
	body := fmt.Appendf(nil, `{"seconds":%d}`, seconds)
	r, err := http.NewRequestWithContext(g.t.Context(), http.MethodPost, "http://"+st.Door.Address+"/v1/completions", bytes.NewReader(body))
	if err != nil {
		g.t.Fatal(err)
	}
	r.Header.Set(wire.HeaderReplicaKey, st.Door.Key)
	res, err := g.client.Do(r)
	if err != nil {
		return "no answer"
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	switch {
	case res.Header.Get(wire.HeaderDoor) != "":
		return res.Header.Get(wire.HeaderDoor)
	case err != nil || !bytes.HasSuffix(text, []byte("end\n")):
		return "cut"
	}
	return "whole"
}

func (g *rig) reading() wire.Reading {
	g.t.Helper()
	r, err := g.h.Reading(g.t.Context())
	if err != nil {
		g.t.Fatal(err)
	}
	return r
}
