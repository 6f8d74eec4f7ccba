package main

import (
	"bytes"
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"berth/dev"
	"berth/fleet/wire"
	"berth/gossip"
	"berth/internal/listen"
	"berth/internal/memnet"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// terminal runs berthctl against a cluster in a bubble.
type terminal struct {
	t    *testing.T
	http *http.Client
	addr string
}

// at runs a command line and checks its exit code; what it printed comes back.
func (x terminal) at(code int, args ...string) (stdout, stderr string) {
	x.t.Helper()
	var out, err bytes.Buffer
	a := &app{in: strings.NewReader(""), out: &out, err: &err, http: x.http}
	if got := a.run(context.Background(), append([]string{"--addr", x.addr}, args...)); got != code {
		x.t.Errorf("berthctl %s: exit %d, want %d\n%s%s", strings.Join(args, " "), got, code, &out, &err)
	}
	return out.String(), err.String()
}

func inCluster(t *testing.T, test func(terminal)) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		net := memnet.New(1)
		hosts := map[string]*memnet.Host{}
		cfg := dev.Small(dir, slog.New(slog.DiscardHandler))
		begun := time.Now()
		cfg.Clock = func(string) func() time.Duration { return func() time.Duration { return time.Since(begun) } }
		cfg.Network = func(machine, ip string) listen.Network {
			if hosts[machine] == nil {
				hosts[machine] = net.Host(machine, ip)
			}
			return hosts[machine]
		}
		c, err := dev.Start(context.Background(), cfg)
		if err != nil {
			t.Fatal(err)
		}
		transport := listen.Transport(net.Host("operator", "10.0.9.9"))
		defer func() {
			transport.CloseIdleConnections()
			c.Close()
			time.Sleep(gossip.Linger)
		}()
		time.Sleep(10 * time.Second)
		test(terminal{t: t, http: &http.Client{Transport: transport}, addr: strings.Join(c.PeerURLs(), ",")})
	})
}

func has(t *testing.T, text string, wants ...string) {
	t.Helper()
	for _, want := range wants {
		if !strings.Contains(text, want) {
			t.Errorf("%q is missing from:\n%s", want, text)
		}
	}
}

// words squeezes a table's blanks, so that a test does not depend on widths.
func words(table string) string {
	var lines []string
	for line := range strings.Lines(table) {
		lines = append(lines, strings.Join(strings.Fields(line), " "))
	}
	return strings.Join(lines, "\n")
}

// TestAnOperatorsFirstHour goes through the nouns and verbs as an operator would.
func TestAnOperatorsFirstHour(t *testing.T) {
	inCluster(t, func(x terminal) {
		out, _ := x.at(0, "nodes")
		has(t, words(out), "node-1 ready 8xh100-sxm-80gb 8/8 fabric-1 0", "node-4 ready 8xh100-sxm-80gb 8/8 fabric-2 0")
		out, _ = x.at(0, "model", "apply", "-f", "../../examples/sim")
		has(t, out, "deepseek-ai/DeepSeek-R1: applied, generation 1")
		time.Sleep(20 * time.Second)
		out, _ = x.at(0, "model", "apply", "-f", "../../examples/sim")
		has(t, out, "deepseek-ai/DeepSeek-R1: unchanged (generation 1)")
		out, _ = x.at(0, "models")
		has(t, words(out), "deepseek-ai/DeepSeek-R1 satisfied 1 1 1 1 1 sim 2x8 80", "BAAI/bge-small-en-v1.5 satisfied 1 1 1 2 1 sim 2GiB 50")
		out, _ = x.at(0, "replicas", "--model", "deepseek-ai/DeepSeek-R1")
		has(t, words(out), "deepseek-ai/DeepSeek-R1 ready", "16 0 - ") // cards, nothing in flight, never used
		out, _ = x.at(0, "model", "show", "llama-8b")
		has(t, words(out), "state satisfied", "engine.driver sim", "placement.gpus_per_node 1")
		out, _ = x.at(0, "model", "explain", "llama-8b")
		has(t, out, "has the replicas that it wants")
		out, _ = x.at(0, "model", "scale", "llama-8b", "3")
		has(t, out, "applied, generation 1")
		out, _ = x.at(0, "model", "diff", "-f", "../../examples/sim/llama-8b.yaml")
		has(t, out, "replicas.min: 3 -> 2")
		time.Sleep(10 * time.Second)
		out, _ = x.at(0, "status")
		has(t, words(out), "MODELS 3 3 satisfied 0 short", "REPLICAS 5 5 ready", "h100-sxm-80gb [#############.......] 63% 32 20 12 0 0")
		x.at(0, "routers")
		out, _ = x.at(0, "router", "show", "router-2")
		has(t, words(out), "deepseek-ai/DeepSeek-R1 - -")
		out, _ = x.at(0, "peers")
		if words(out); strings.Count(out, "follower") != 2 || strings.Count(out, "leader") != 1 {
			t.Errorf("peers: %s", out)
		}
		x.at(0, "node", "cordon", "node-3", "--reason", "fans")
		out, _ = x.at(0, "nodes")
		has(t, words(out), "node-3 cordoned")
		has(t, out, "fans")
		x.at(0, "node", "uncordon", "node-3")
		x.at(0, "idle")
		time.Sleep(time.Second) // history is written down a little later
		out, _ = x.at(0, "events")
		has(t, words(out), "placed plan", whoami()+" node-3 is cordoned fans", "agent node-1 node-1 registered with 8 GPUs node.register")
		out, _ = x.at(0, "events", "--node", "node-3", "--since", "1h")
		if has(t, out, "is cordoned"); strings.Contains(out, "llama-8b created") || strings.Contains(out, "node-1 ") {
			t.Errorf("events of one node: %s", out)
		}
		out, _ = x.at(0, "version")
		has(t, out, "berthctl", "level 1")
	})
}

func TestExitCodesSayWhatHappened(t *testing.T) {
	inCluster(t, func(x terminal) {
		big := filepath.Join(t.TempDir(), "big.yaml")
		write(t, big, "version: 1\nkind: model\nname: big\nengine: {driver: sim, weights: w}\nplacement: {gpus_per_node: 9}\n")
		_, stderr := x.at(exitError, "model", "apply", "-f", big)
		has(t, stderr, "big", "8")
		x.at(exitNotPlaced, "model", "plan", "-f", big)
		many := filepath.Join(t.TempDir(), "many.yaml")
		write(t, many, "version: 1\nkind: model\nname: many\nengine: {driver: sim, weights: w}\nplacement: {gpus_per_node: 8}\nreplicas: {min: 5, max: 5}\n")
		_, stderr = x.at(exitNotPlaced, "model", "apply", "-f", many)
		has(t, stderr, "not placed: many is short of")
		time.Sleep(15 * time.Second)
		x.at(exitNotPlaced, "model", "explain", "many")
		out, _ := x.at(exitNotPlaced, "status")
		has(t, out, "NOT PLACED", "many")
		x.at(exitError, "model", "show", "none")
		x.at(exitError, "replica", "show", "r-1.1.1")
		x.at(exitUsage, "model", "delete", "many") // nobody can be asked
		x.at(0, "model", "delete", "many", "--yes")
		x.at(exitUsage, "model", "scale", "many", "two")
		x.at(exitUsage, "models", "--nope")
		x.at(exitUsage, "freeze")
		x.at(exitUsage, "model", "apply")
		x.at(0, "freeze", "--reason", "moving racks")
		out, _ = x.at(0, "status")
		has(t, out, "FROZEN", "moving racks")
		x.at(0, "thaw")
	})
}

func TestJSONIsWhatTheAPISays(t *testing.T) {
	inCluster(t, func(x terminal) {
		out, _ := x.at(0, "status", "--json")
		var s wire.Status
		if err := json.Unmarshal([]byte(out), &s); err != nil || s.Nodes.Ready != 4 || s.GPUs[0].Total != 32 {
			t.Errorf("%v: %s", err, out)
		}
		for _, list := range []string{"nodes", "models", "replicas", "routers", "peers", "events"} {
			out, _ := x.at(0, list, "--json")
			var rows []map[string]any
			if err := json.Unmarshal([]byte(out), &rows); err != nil {
				t.Errorf("%s: %v: %s", list, err, out)
			}
		}
	})
}

func TestASnapshotIsSavedVerifiedAndRestored(t *testing.T) {
	inCluster(t, func(x terminal) {
		x.at(0, "model", "apply", "-f", "../../examples/sim/llama-8b.yaml")
		file := filepath.Join(t.TempDir(), "state.snapshot")
		out, _ := x.at(0, "snapshot", "save", file)
		has(t, out, "records")
		if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("the file holds secrets: %v %v", info.Mode(), err)
		}
		x.at(0, "snapshot", "verify", file)
		alone := terminal{x.t, x.http, "192.0.2.99:7300"} // no peer answers there
		if out, _ := alone.at(0, "snapshot", "inspect", file); !strings.Contains(out, "3 peers") {
			t.Errorf("inspect:\n%s", out)
		}
		x.at(0, "model", "delete", "llama-8b", "--yes")
		time.Sleep(10 * time.Second)
		x.at(exitError, "model", "show", "llama-8b")
		x.at(exitUsage, "snapshot", "restore", file) // nobody can be asked
		x.at(0, "snapshot", "restore", file, "--yes")
		time.Sleep(10 * time.Second)
		x.at(0, "model", "show", "llama-8b")
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		data[len(data)/2] ^= 1
		write(t, file, string(data))
		x.at(exitError, "snapshot", "verify", file)
		alone.at(exitError, "snapshot", "inspect", file)
		x.at(exitError, "snapshot", "restore", file, "--yes")
		x.at(0, "model", "show", "llama-8b")
	})
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestAgesForPeople(t *testing.T) {
	for s, want := range map[float64]string{-1: "-", 0: "0s", 0.4: "0s", 59.9: "59s", 61: "1m01s", 3600: "1h00m", 10812: "3h00m", 200_000: "2d07h"} {
		if got := age(s); got != want {
			t.Errorf("%v seconds: %s, want %s", s, got, want)
		}
	}
}

// Watching writes over what was there and never empties a screen; off a terminal no control sequence is written at all.
func TestWatchingDoesNotFlicker(t *testing.T) {
	if got := string(overwrite("a\nb\n", false)); got != "\x1b[Ha\x1b[K\nb\x1b[K\n\x1b[J" {
		t.Errorf("%q", got)
	}
	inCluster(t, func(x terminal) {
		var out, errs bytes.Buffer
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		a := &app{in: strings.NewReader(""), out: &out, err: &errs, http: x.http}
		code := a.run(ctx, []string{"--addr", x.addr, "status", "--watch"})
		if shown := strings.Count(out.String(), "NODES"); code != 0 || shown < 3 || strings.Contains(out.String(), "\x1b") {
			t.Errorf("exit %d, %d screens\n%s%s", code, shown, &out, &errs)
		}
	})
}
