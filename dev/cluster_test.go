package dev

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"berth/admin/client"
	"berth/fleet"
	"berth/fleet/wire"
	"berth/gossip"
	"berth/internal/listen"
	"berth/internal/memnet"
	"berth/internal/modelfile"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// bubble is a whole cluster in a bubble, and an operator's machine beside it.
type bubble struct {
	*Cluster
	t        *testing.T
	net      *memnet.Network
	operator *memnet.Host
	http     *http.Client
	ctl      *client.Client
}

// inBubble runs a whole cluster on an in-memory network and virtual time.
func inBubble(t *testing.T, change func(*Config), test func(*bubble)) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		log := slog.New(slog.DiscardHandler)
		if os.Getenv("BERTH_TEST_LOG") != "" {
			log = slog.New(slog.NewTextHandler(os.Stderr, nil))
		}
		b := &bubble{t: t, net: memnet.New(1)}
		hosts := map[string]*memnet.Host{}
		cfg := Small(dir, log)
		start := time.Now()
		cfg.Clock = func(string) func() time.Duration { return func() time.Duration { return time.Since(start) } }
		cfg.Network = func(machine, ip string) listen.Network {
			if hosts[machine] == nil {
				hosts[machine] = b.net.Host(machine, ip)
			}
			return hosts[machine]
		}
		if change != nil {
			change(&cfg)
		}
		b.operator = b.net.Host("operator", "10.0.9.9")
		transport := listen.Transport(b.operator)
		b.http = &http.Client{Transport: transport}
		var err error
		if b.Cluster, err = Start(context.Background(), cfg); err != nil {
			t.Fatal(err)
		}
		defer func() { // also when the test gives up
			transport.CloseIdleConnections()
			b.Close()
			time.Sleep(gossip.Linger) // memberlist's own goroutines end by themselves
		}()
		if b.ctl, err = client.New(client.Config{Addrs: b.PeerURLs(), HTTP: b.http}); err != nil {
			t.Fatal(err)
		}
		test(b)
	})
}

// eventually waits until the condition holds, for at most a minute of the bubble's time.
func (b *bubble) eventually(what string, holds func() bool) time.Duration {
	b.t.Helper()
	start := time.Now()
	for !holds() {
		if time.Since(start) > time.Minute {
			b.t.Fatalf("after a minute still not: %s", what)
		}
		time.Sleep(100 * time.Millisecond)
	}
	return time.Since(start)
}

func (b *bubble) apply(path string) {
	b.t.Helper()
	specs, err := modelfile.Load(path, nil)
	if err != nil {
		b.t.Fatal(err)
	}
	for _, spec := range specs {
		if _, err := b.ctl.Apply(context.Background(), spec, client.ApplyOptions{}); err != nil {
			b.t.Fatalf("apply %s: %v", spec.Name, err)
		}
	}
}

func (b *bubble) status() wire.Status {
	s, _, err := b.ctl.Status(context.Background(), client.ReadOptions{})
	if err != nil {
		return wire.Status{}
	}
	return s
}

func (b *bubble) replicas() []wire.ReplicaView {
	b.t.Helper()
	rows, _, err := b.ctl.Replicas(context.Background(), nil)
	if err != nil {
		b.t.Fatal(err)
	}
	return rows
}

// chat streams a chat through a router and gives the text of its events.
func (b *bubble) chat(router int, model string, tokens int) string {
	b.t.Helper()
	body, _ := json.Marshal(map[string]any{"model": model, "stream": true, "max_tokens": tokens, "ignore_eos": true, "messages": []any{map[string]string{"role": "user", "content": "Hello"}}})
	res, err := b.http.Post(b.RouterURLs()[router]+"/chat/completions", "application/json", bytes.NewReader(body))
	if err != nil {
		b.t.Fatal(err)
	}
	defer res.Body.Close()
	data, err := io.ReadAll(res.Body)
	if err != nil || res.StatusCode != http.StatusOK {
		b.t.Fatalf("chat: %s %v\n%s", res.Status, err, data)
	}
	return string(data)
}

// post sends one chat to a URL, without a stream, and gives the status and the body. 0 is a request that got no answer, or not the whole of one.
func (b *bubble) post(url string, header map[string]string, model string, tokens int) (int, string) {
	body, _ := json.Marshal(map[string]any{"model": model, "max_tokens": tokens, "ignore_eos": true, "messages": []any{map[string]string{"role": "user", "content": "Hello"}}})
	req, err := http.NewRequest(http.MethodPost, url, bytes.NewReader(body))
	if err != nil {
		return 0, err.Error()
	}
	for k, v := range header {
		req.Header.Set(k, v)
	}
	res, err := b.http.Do(req)
	if err != nil {
		return 0, err.Error()
	}
	defer res.Body.Close()
	data, err := io.ReadAll(res.Body)
	if err != nil {
		return 0, err.Error()
	}
	return res.StatusCode, string(data)
}

func (b *bubble) ready() {
	b.t.Helper()
	b.eventually("four nodes", func() bool { return b.status().Nodes.Ready == 4 })
	b.apply(filepath.Join("..", "examples", "sim"))
	b.eventually("three models satisfied", func() bool { return b.status().Models.Satisfied == 3 })
}

func TestAWholeClusterServesInABubble(t *testing.T) {
	inBubble(t, nil, func(b *bubble) {
		b.ready()
		s := b.status()
		if s.Replicas.Ready != 4 || s.GPUs[0].Used != 19 || s.GPUs[0].Free != 13 {
			t.Errorf("status: %+v", s)
		}
		if out := b.chat(0, "llama-8b", 20); strings.Count(out, "data: ") < 21 || !strings.HasSuffix(out, "data: [DONE]\n\n") {
			t.Errorf("the stream: %s", out)
		}
	})
}

// TestALeaderDiesDuringAStream: the stream ends whole, another peer leads, and every surviving peer shows the same fleet.
func TestALeaderDiesDuringAStream(t *testing.T) {
	inBubble(t, nil, func(b *bubble) {
		b.ready()
		leader := b.status().Leader
		streamed := make(chan string)
		go func() { streamed <- b.chat(0, "llama-8b", 200) }()
		time.Sleep(time.Second)
		if err := b.StopMachine(leader); err != nil {
			t.Fatal(err)
		}
		b.eventually("another leader", func() bool { l := b.status().Leader; return l != "" && l != leader })
		if out := <-streamed; strings.Count(out, "data: ") < 201 || !strings.HasSuffix(out, "data: [DONE]\n\n") {
			t.Errorf("the stream was cut after %d events: …%s", strings.Count(out, "data: "), out[max(0, len(out)-500):])
		}
		if s := b.status(); s.Models.Satisfied != 3 || s.Replicas.Ready != 4 {
			t.Errorf("after the failover: %+v", s)
		}
	})
}

// TestIdleOutlivesARouterAndALeader (C01): a router that starts anew has no entry for what it has not served, and neither that nor a failover
// makes a replica look idler than it is, or less idle than it was.
func TestIdleOutlivesARouterAndALeader(t *testing.T) {
	inBubble(t, nil, func(b *bubble) {
		b.ready()
		b.chat(0, "deepseek-r1", 5)
		time.Sleep(30 * time.Second)
		before := idleOf(b, "deepseek-ai/DeepSeek-R1")
		if before < 25 || before > 40 {
			t.Fatalf("idle for %.1f s, thirty after the chat", before)
		}
		if err := b.StopMachine("router-1"); err != nil {
			t.Fatal(err)
		}
		if err := b.StartMachine("router-1"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(5 * time.Second)
		if r, _, err := b.ctl.Router(context.Background(), "router-1"); err != nil || len(r.Uses) != 0 || r.Boot != 2 {
			t.Errorf("the router that has served nothing reports %+v, %v", r, err)
		}
		if now := idleOf(b, "deepseek-ai/DeepSeek-R1"); now < before+4 || now > before+10 {
			t.Errorf("idle for %.1f s, %.1f before the restart", now, before)
		}
		if never := idleOf(b, "BAAI/bge-small-en-v1.5"); never != -1 {
			t.Errorf("a replica nobody ever asked for is idle for %.1f s", never)
		}
		old := b.status().Leader
		if err := b.StopMachine(old); err != nil {
			t.Fatal(err)
		}
		b.eventually("another leader", func() bool { l := b.status().Leader; return l != "" && l != old })
		time.Sleep(10 * time.Second)
		if now := idleOf(b, "deepseek-ai/DeepSeek-R1"); now < before+14 || now > before+60 {
			t.Errorf("idle for %.1f s after the failover", now)
		}
		if never := idleOf(b, "BAAI/bge-small-en-v1.5"); never != -1 {
			t.Errorf("a replica nobody ever asked for is idle for %.1f s after the failover", never)
		}
	})
}

func idleOf(b *bubble, model string) float64 {
	b.t.Helper()
	for _, r := range b.replicas() {
		if r.Model == model {
			return r.IdleSeconds
		}
	}
	b.t.Fatalf("no replica of %s", model)
	return 0
}

// TestARequestWakesAModelAtZero: it waits, one load happens, and it is served.
func TestARequestWakesAModelAtZero(t *testing.T) {
	inBubble(t, nil, func(b *bubble) {
		b.eventually("four nodes", func() bool { return b.status().Nodes.Ready == 4 })
		spec := fleet.DefaultedSpec()
		spec.Version, spec.Kind, spec.Name = 1, "model", "sleeper"
		spec.Engine = fleet.EngineSpec{Driver: "sim", Weights: "sleeper", Args: []string{"--load-time=3s"}}
		spec.Placement.GPUsPerNode = 1
		spec.Replicas = fleet.ReplicaCount{Min: 0, Max: 2}
		if _, err := b.ctl.Apply(context.Background(), spec, client.ApplyOptions{}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(5 * time.Second)
		if n := len(b.replicas()); n != 0 {
			t.Fatalf("%d replicas of a model at zero that nobody asked for", n)
		}
		if out := b.chat(1, "sleeper", 3); !strings.Contains(out, "[DONE]") {
			t.Errorf("the request that waited: %s", out)
		}
		if n := len(b.replicas()); n != 1 {
			t.Errorf("%d replicas after one request", n)
		}
	})
}

// TestAChangedSpecReplacesReplicasOneByOne: new first where there is room, and the model is served throughout.
func TestAChangedSpecReplacesReplicasOneByOne(t *testing.T) {
	inBubble(t, nil, func(b *bubble) {
		b.ready()
		specs, err := modelfile.Load(filepath.Join("..", "examples", "sim", "llama-8b.yaml"), nil)
		if err != nil {
			t.Fatal(err)
		}
		spec := specs[0]
		spec.Engine.Args = append(spec.Engine.Args, "--max-model-len=4096")
		if _, err := b.ctl.Apply(context.Background(), spec, client.ApplyOptions{}); err != nil {
			t.Fatal(err)
		}
		fewest := 9
		b.eventually("two ready replicas of the new generation and none of the old", func() bool {
			ready, old := 0, 0
			for _, r := range b.replicas() {
				if r.Model == spec.Name && r.State == fleet.Ready {
					ready++
				}
				if r.Model == spec.Name && r.Generation == 1 {
					old++
				}
			}
			fewest = min(fewest, ready)
			return ready == 2 && old == 0
		})
		if fewest < 2 {
			t.Errorf("only %d replicas were ready at one time, though there was room for a third", fewest)
		}
	})
}

func TestADeletedModelIsDrainedAndGone(t *testing.T) {
	inBubble(t, nil, func(b *bubble) {
		b.ready()
		if _, err := b.ctl.DeleteModel(context.Background(), "deepseek-r1"); err != nil {
			t.Fatal(err)
		}
		b.eventually("the model gone and its sixteen cards free", func() bool {
			s := b.status()
			return s.Models.Total == 2 && s.GPUs[0].Free == 29
		})
	})
}
