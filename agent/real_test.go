package agent_test

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"berth/agent"
	"berth/agent/engine"
	"berth/agent/engine/sim"
	"berth/agent/shim"
	"berth/agent/shim/inproc"
	"berth/fleet"
	"berth/fleet/wire"
	"berth/internal/listen"
	"berth/internal/memnet"
)

// machineOf is a node with real shims, doors, drivers and simulated engines, in one process on an in-memory network.
func machineOf(t *testing.T, g *rig, name string) {
	t.Helper()
	program, err := os.Executable() // only looked for, never run
	if err != nil {
		t.Fatal(err)
	}
	cfg := agent.EngineConfig{Command: []string{program}, AllowArgs: []string{"--load-time", "--fault"}, Version: "0.33.0"}
	driver, err := engine.New("sim", cfg)
	if err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	machine := inproc.NewNode(t.Context(), inproc.Config{
		Network: g.host, Policy: listen.Policy{InsecureNoTLS: true}, Clock: func() time.Duration { return time.Since(began) },
		Logger: slog.New(slog.NewTextHandler(g.log, nil)),
		Engines: func(x shim.Exec) (inproc.Engine, error) {
			c, err := sim.ParseArgs(x.Args[1:])
			if err != nil {
				return nil, err
			}
			c.Listen, c.Dial, c.Logger = g.host.Listen, g.host.Dial, slog.New(slog.NewTextHandler(x.Output, nil))
			e, err := sim.New(c)
			return engineOf{e}, err
		},
	})
	t.Cleanup(machine.Close)
	g.adjust = func(c *agent.Config) {
		c.Name, c.EngineBind, c.Maker, c.Drivers = name, g.host.Name(), machine, []agent.Driver{driver}
		c.Engines = map[string]agent.EngineConfig{"sim": cfg}
	}
}

// engineOf gives the engine's errors the exit codes that its process would have.
type engineOf struct{ *sim.Engine }

type coded struct{ error }

func (c coded) ExitCode() int { return sim.ExitCode(c.error) }

func (e engineOf) Run(ctx context.Context) error {
	if err := e.Engine.Run(ctx); err != nil {
		return coded{err}
	}
	return nil
}

func onMachine(t *testing.T, test func(*testing.T, *rig)) {
	inBubble(t, func(t *testing.T, g *rig) {
		machineOf(t, g, node)
		test(t, g)
		g.stop()
	})
}

func (g *rig) ask(door fleet.Door) (int, string) {
	g.t.Helper()
	tr := listen.Transport(g.host)
	defer tr.CloseIdleConnections()
	req, err := http.NewRequestWithContext(g.t.Context(), http.MethodPost, "http://"+door.Address+"/v1/completions",
		strings.NewReader(`{"model":"m","prompt":"hello","max_tokens":4}`))
	if err != nil {
		g.t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Berth-Replica-Key", door.Key)
	res, err := tr.RoundTrip(req)
	if err != nil {
		return 0, err.Error()
	}
	defer res.Body.Close()
	body, _ := io.ReadAll(res.Body)
	return res.StatusCode, string(body)
}

// reading is the newest reading that a heartbeat carried.
func (g *rig) reading() wire.Reading {
	g.t.Helper()
	beats := g.peers.heartbeats()
	h := beats[len(beats)-1]
	if len(h.Readings) != 1 {
		g.t.Fatalf("%d readings in the newest heartbeat", len(h.Readings))
	}
	return h.Readings[0]
}

// TestRealShimAcrossAgents: a real engine behind a real door, two lives of the agent, a conditional stop that is unwanted and one that holds.
func TestRealShimAcrossAgents(t *testing.T) {
	onMachine(t, func(t *testing.T, g *rig) {
		g.start()
		g.order(10, run(10, func(o *wire.Order) { o.Spec.Engine.Args = []string{"--load-time=20s"} }))
		g.after(18 * time.Second)
		g.wantReported("starting")
		g.after(5 * time.Second)
		g.wantReported("starting ready")
		door := *g.last().Door
		if code, body := g.ask(door); code != http.StatusOK {
			t.Fatalf("%d %s", code, body)
		}
		g.stop()
		if code, _ := g.ask(door); code != http.StatusOK {
			t.Fatal("the engine did not outlive its agent")
		}
		g.start()
		g.after(2 * time.Second)
		r := g.reading()
		if r.Admissions != 2 || r.InFlight != 0 || r.UseAge == nil || r.Engine != 1 || r.Stamp == nil {
			t.Fatalf("%+v", r)
		}
		mark := fleet.Mark{Shim: r.Shim, Engine: r.Engine, Admissions: r.Admissions}
		if code, _ := g.ask(door); code != http.StatusOK {
			t.Fatal(code)
		}
		g.order(20, stop(20, func(o *wire.Order) { o.Drain.Mark = &mark }))
		if got := g.reported(); !strings.HasSuffix(got, "withdrawn ready") {
			t.Fatalf("reported %q", got)
		}
		mark.Admissions++
		g.order(30, stop(30, func(o *wire.Order) { o.Drain.Mark = &mark }))
		g.after(5 * time.Second)
		if got := g.reported(); !strings.HasSuffix(got, "shut stopped") {
			t.Fatalf("reported %q", got)
		}
		if tr := g.last(); !tr.Released || tr.Order.N != 30 {
			t.Errorf("%+v", tr)
		}
		if code, body := g.ask(door); code != http.StatusServiceUnavailable || !strings.Contains(body, "shut") {
			t.Errorf("the shut door answers %d %s", code, body)
		}
		g.after(time.Minute)
		if code, body := g.ask(door); code != 0 {
			t.Errorf("the door still answers %d %s", code, body)
		}
	})
}

func TestRealEngineThatCannotStart(t *testing.T) {
	onMachine(t, func(t *testing.T, g *rig) {
		g.start()
		g.order(10, run(10, func(o *wire.Order) {
			o.Spec.Engine.Args = []string{"--load-time=1s", `--fault={"crash_after":"200ms","crash_code":3}`}
			o.Spec.Start.MaxRestarts = 2
		}))
		g.after(10 * time.Minute)
		if got := g.reported(); strings.Count(got, "exited") != 3 || !strings.HasSuffix(got, "exited failed") {
			t.Fatalf("reported %q: %+v", got, g.last())
		}
		if tr := g.last(); tr.Exit == nil || tr.Exit.Code != 3 || len(tr.Exit.Log) == 0 || tr.Restarts != 2 || tr.Released {
			t.Errorf("%+v", tr)
		}
	})
}

// TestRealGang: two nodes, the ranks meet where rank 0 said, a lost rank ends as an exit, a new start brings both back, and the stop goes from the
// door to the other rank.
func TestRealGang(t *testing.T) {
	dir := t.TempDir()
	onMachine(t, func(t *testing.T, a *rig) {
		net := memnet.New(2)
		a.host = net.Host(host)
		b := &rig{t: t, host: net.Host("192.0.2.18"), dir: dir, peers: newPeers(), cards: newCards(2), log: &logBuffer{}}
		b.peers.orders.Node = "gpu-018"
		machineOf(t, a, node)
		machineOf(t, b, "gpu-018")
		defer b.stop()
		a.start()
		b.start()
		a.order(10, run(10, rank(0, "", 1)))
		b.order(10, run(10, rank(1, "", 1)))
		a.wantReported("starting")
		b.wantReported("")
		b.order(11, run(10, rank(1, a.last().Master, 1)))
		a.after(5 * time.Second)
		a.wantReported("starting ready")

		a.order(20, run(20, rank(0, "", 2))) // as after an exit of either
		b.order(20, run(20, rank(1, "", 2)))
		second := a.last()
		if second.To != wire.BecameStarting || second.Master == "" || second.Start != 2 {
			t.Fatalf("%+v", second)
		}
		b.order(21, run(20, rank(1, second.Master, 2)))
		a.after(10 * time.Second)
		if tr := a.last(); tr.To != wire.BecameReady || tr.Start != 2 || tr.Order.N != 20 {
			t.Fatalf("%+v; rank 1 reported %q", tr, b.reported())
		}
		if code, body := a.ask(*a.last().Door); code != http.StatusOK {
			t.Fatalf("%d %s", code, body)
		}

		b.order(30, stop(30, rank(1, second.Master, 2)))
		a.order(30, stop(30, rank(0, second.Master, 2)))
		a.after(20 * time.Second)
		if got := a.reported(); !strings.HasSuffix(got, "shut stopped") {
			t.Errorf("rank 0 reported %q", got)
		}
		if strings.Contains(b.reported(), wire.BecameStopped) && !strings.Contains(a.reported(), wire.BecameShut) {
			t.Error("rank 1 ended before the door was shut")
		}
		b.order(31, stop(30, rank(1, second.Master, 2), func(o *wire.Order) { o.Drain.DoorShut = true }))
		b.after(45 * time.Second)
		if got := b.reported(); !strings.HasSuffix(got, "stopped") {
			t.Errorf("rank 1 reported %q", got)
		}
	})
}

// TestRealLogsAreFollowed until the client goes.
func TestRealLogsAreFollowed(t *testing.T) {
	onMachine(t, func(t *testing.T, g *rig) {
		g.start()
		g.order(10, run(10, func(o *wire.Order) { o.Spec.Engine.Args = []string{`--fault={"crash_after":"30s","crash_code":3}`} }))
		tr := listen.Transport(g.host)
		defer tr.CloseIdleConnections()
		ctx, cancel := context.WithCancel(t.Context())
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://127.0.0.1:7310/replicas/"+replica+"/logs?follow&tail=5", nil)
		if err != nil {
			t.Fatal(err)
		}
		res, err := tr.RoundTrip(req)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		lines := make(chan string, 100)
		go func() {
			defer close(lines)
			buf := make([]byte, 4096)
			for {
				n, err := res.Body.Read(buf)
				if n > 0 {
					lines <- string(buf[:n])
				}
				if err != nil {
					return
				}
			}
		}()
		g.after(time.Second)
		for len(lines) > 0 {
			<-lines
		}
		g.after(time.Minute)
		if len(lines) == 0 {
			t.Error("what the engine said at its end did not come")
		}
		cancel()
		synctest.Wait()
		for range lines {
		}
	})
}
