package router

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"testing"
	"time"

	"berth/fleet"
	"berth/fleet/wire"
	"berth/internal/listen"
	"berth/internal/ops"
	"berth/router/pool"
	"berth/router/upstream"
)

// proxies are what the benchmarks compare: no proxy, the standard library's with the same transport, and this router.
// Client, proxy and engine share the process and the machine's loopback, so a difference is the proxy's own cost.
func proxies(b *testing.B, engine http.HandlerFunc) map[string]http.Handler {
	behind := httptest.NewServer(engine)
	b.Cleanup(behind.Close)
	target, err := url.Parse(behind.URL)
	if err != nil {
		b.Fatal(err)
	}
	transport := listen.Transport(listen.System)
	b.Cleanup(transport.CloseIdleConnections)
	reverse := &httputil.ReverseProxy{Transport: transport, FlushInterval: -1, Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(target) }}
	plain := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_ = http.NewResponseController(w).EnableFullDuplex() // or it now and then loses an answer that is faster than the end of its body
		reverse.ServeHTTP(w, r)
	})

	c := Config{Name: "bench", DataDir: "unused"}.withDefaults()
	p := pool.New(c.Clock)
	p.Apply(wire.Table{Version: 1, Cluster: "c", Index: fleet.Index{N: 1}, Models: []wire.TableModel{model("m",
		wire.Endpoint{Replica: "a", Address: target.Host, Key: "k", State: fleet.Ready},
		wire.Endpoint{Replica: "b", Address: target.Host, Key: "k", State: fleet.Ready})}})
	client := &upstream.Client{Dial: listen.System.Dial, Rest: transport}
	b.Cleanup(client.CloseIdle)
	m := newMetrics(ops.New(ops.Build{Role: "router"}).Registry(), p, func() tableState { return tableState{} })
	return map[string]http.Handler{"direct": engine, "ReverseProxy": plain, "router": newHandler(c, p, client, m)}
}

var kilobyte = `{"messages":[{"role":"user","content":"` + strings.Repeat("word ", 200) + `"}],"model":"m","stream":false}`

// BenchmarkProxyRequest is one chat request of 1 KB with an answer of half a kilobyte, on one connection.
func BenchmarkProxyRequest(b *testing.B) {
	body := `{"choices":[{"message":{"content":"` + strings.Repeat("x", 450) + `"}}]}`
	engine := func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, body)
	}
	for name, h := range proxies(b, engine) {
		b.Run(name, func(b *testing.B) {
			front := httptest.NewServer(h)
			defer front.Close()
			b.ReportAllocs()
			for b.Loop() {
				roundTrip(b, front, kilobyte, len(body))
			}
		})
	}
}

// BenchmarkProxyLongPrompt is a request of 100,000 tokens, about 400 KB, whose prompt is hashed and looked up.
func BenchmarkProxyLongPrompt(b *testing.B) {
	body := `{"messages":[{"role":"user","content":"` + strings.Repeat("word ", 80_000) + `"}],"model":"m"}`
	engine := func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		_, _ = io.WriteString(w, "{}")
	}
	for name, h := range proxies(b, engine) {
		b.Run(name, func(b *testing.B) {
			front := httptest.NewServer(h)
			defer front.Close()
			b.SetBytes(int64(len(body)))
			for b.Loop() {
				roundTrip(b, front, body, 2)
			}
		})
	}
}

// BenchmarkProxyChunk is one event of a stream that is flushed event by event.
func BenchmarkProxyChunk(b *testing.B) {
	const events = 1000
	event := `data: {"choices":[{"delta":{"content":" word"}}]}` + "\n\n"
	engine := func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Type", "text/event-stream")
		for range events {
			_, _ = io.WriteString(w, event)
			w.(http.Flusher).Flush()
		}
	}
	for name, h := range proxies(b, engine) {
		b.Run(name, func(b *testing.B) {
			front := httptest.NewServer(h)
			defer front.Close()
			start := time.Now()
			n := 0
			for b.Loop() {
				roundTrip(b, front, kilobyte, events*len(event))
				n++
			}
			b.ReportMetric(float64(time.Since(start).Nanoseconds())/float64(n*events), "ns/chunk")
		})
	}
}

func roundTrip(b *testing.B, front *httptest.Server, body string, want int) {
	resp, err := front.Client().Post(front.URL+chatPath, "application/json", strings.NewReader(body))
	if err != nil {
		b.Fatal(err)
	}
	n, err := io.Copy(io.Discard, resp.Body)
	if err != nil || resp.StatusCode != 200 || n != int64(want) {
		b.Fatal(fmt.Errorf("%d, %d bytes, %w", resp.StatusCode, n, err))
	}
	resp.Body.Close()
}
