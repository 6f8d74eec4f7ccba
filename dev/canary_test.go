package dev

import (
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"berth/fleet/wire"
)

// page keeps everything that is written to it.
type page struct {
	mu   sync.Mutex
	text strings.Builder
}

func (p *page) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.text.Write(b)
}

func (p *page) String() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.text.String()
}

// mayHold are the routes whose very purpose is to carry the doors' keys: to routers, to agents, and the whole state to whoever may have it.
var mayHold = map[string]bool{"/api/v1/table": true, "/api/v1/snapshot": true, "/api/v1/agents/{node}/orders": true}

// TestNoKeyOfADoorIsShown uses the doors' keys as canaries: nothing that people or programs other than routers are shown holds one, neither what every role
// logs at its most talkative, nor any answer of any peer, nor metrics, nor what agents and routers show, nor the error for a wrong key.
func TestNoKeyOfADoorIsShown(t *testing.T) {
	logged := new(page)
	inBubble(t, func(c *Config) {
		c.Log = slog.New(slog.NewJSONHandler(logged, &slog.HandlerOptions{Level: slog.LevelDebug}))
	}, func(b *bubble) {
		b.ready()
		table, err := b.ctl.Table(context.Background(), b.status().Index, 0)
		if err != nil || len(table.Models) == 0 {
			if table, err = b.ctl.Table(context.Background(), table.Index, time.Second); err != nil {
				t.Fatal(err)
			}
		}
		keys := map[string]string{} // to the replica
		var at wire.Endpoint
		for _, m := range table.Models {
			for _, e := range m.Endpoints {
				if keys[e.Key], at = e.Replica, e; len(e.Key) < 16 {
					t.Fatalf("%s has the key %q: the test shows nothing", e.Replica, e.Key)
				}
			}
		}
		if len(keys) < 4 {
			t.Fatalf("%d keys: the test shows nothing", len(keys))
		}
		b.chat(0, table.Models[0].Name, 3)
		_, refusal := b.post("http://"+at.Address+"/v1/chat/completions", map[string]string{wire.HeaderReplicaKey: "wrong"}, "m", 1)
		if err := b.ctl.ReplicaDo(context.Background(), at.Replica, "stop", "to see what is said of it"); err != nil { // events, transitions, a drain
			t.Fatal(err)
		}
		time.Sleep(20 * time.Second)
		shown := b.everything(at.Replica)
		shown["the refusal of a wrong key"] = refusal
		shown["the logs"] = logged.String()
		if len(shown) < 60 || len(shown["the logs"]) < 1000 {
			t.Errorf("only %d things were looked at: the test shows little", len(shown))
		}
		for where, text := range shown {
			for key, replica := range keys {
				if strings.Contains(text, key) {
					t.Errorf("the key of %s's door is in %s", replica, where)
				}
			}
		}
	})
}

// everything asks every route that can be got, of every peer, and what else listens.
func (b *bubble) everything(replica string) map[string]string {
	b.t.Helper()
	out := map[string]string{}
	var doc struct {
		Paths map[string]map[string]any `json:"paths"`
	}
	if err := json.Unmarshal([]byte(b.get(b.PeerURLs()[0]+"/api/v1/openapi.json")), &doc); err != nil {
		b.t.Fatal(err)
	}
	variables := map[string]string{"{node}": "node-1", "{model}": b.replicas()[0].Model, "{id}": replica}
	for path, ops := range doc.Paths {
		if ops["get"] == nil || mayHold[path] {
			continue
		}
		real := regexp.MustCompile(`\{[a-z]+\}`).ReplaceAllStringFunc(path, func(v string) string { return variables[v] })
		for _, peer := range b.PeerURLs() {
			out[peer+real] = b.get(peer + real)
		}
	}
	for _, path := range []string{"/", "/metrics", "/livez", "/readyz", "/leaderz"} {
		for _, peer := range b.PeerURLs() {
			out[peer+path] = b.get(peer + path)
		}
	}
	for _, r := range b.router {
		for _, path := range []string{"/table", "/report", "/metrics"} {
			out["router "+r.ops+path] = b.get("http://" + r.ops + path)
		}
	}
	for i := range b.cfg.Nodes {
		for _, path := range []string{"/inventory", "/replicas", "/metrics"} {
			at := b.cfg.host(machine("node", i)) + ":7310"
			out["agent "+at+path] = b.get("http://" + at + path)
		}
	}
	return out
}

// get gives what is there within a second: some answers have no end.
func (b *bubble) get(url string) string {
	ctx, end := context.WithTimeout(context.Background(), time.Second)
	defer end()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		b.t.Fatal(err)
	}
	res, err := b.http.Do(req)
	if err != nil {
		return err.Error()
	}
	defer res.Body.Close()
	data, _ := io.ReadAll(res.Body) // what came before the end
	return string(data)
}
