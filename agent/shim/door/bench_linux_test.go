package door_test

import (
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"berth/agent/shim/door"
	"berth/fleet/wire"
	"berth/internal/listen"
)

// What a door adds: each benchmark asks an engine over the machine's loopback, batch by batch in turn directly and through a door, on one kept
// connection each. Client, door and engine share the process, so the difference in processor time is the door's own.

const (
	question = `{"model":"m","stream":true,"messages":[{"role":"user","content":"` + "why is the sky blue? why is the sky blue? why is the sky blue?" + `"}]}`
	// batch is how many requests go one way before the other way has its turn: what disturbs the machine then disturbs both.
	batch = 20
)

// BenchmarkDoorRequest is a chat request with an answer of half a kilobyte.
func BenchmarkDoorRequest(b *testing.B) {
	answer := []byte(`{"choices":[{"message":{"content":"` + strings.Repeat("x", 450) + `"}}]}`)
	added(b, answers{whole: len(answer), parts: 1, part: "request"}, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write(answer)
	})
}

// BenchmarkDoorChunk is one event of a stream of 200: the engine writes and flushes the next one when the client has read the last, as tokens are
// further apart than the way is long. Written all at once, they would be read several at a time.
func BenchmarkDoorChunk(b *testing.B) {
	const events = 200
	event := []byte(`data: {"choices":[{"delta":{"content":" word"}}]}` + "\n\n")
	next := make(chan struct{}, 1)
	added(b, answers{whole: events * len(event), parts: events, part: "chunk", read: func() { next <- struct{}{} }}, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Type", "text/event-stream")
		for i := range events {
			if i > 0 {
				<-next
			}
			_, _ = w.Write(event)
			_ = http.NewResponseController(w).Flush()
		}
	})
}

// answers says what the engine sends: so many bytes in so many parts of the same size.
type answers struct {
	whole, parts int
	part         string
	read         func() // called when a part was read, but for the last
}

func added(b *testing.B, a answers, engine http.HandlerFunc) {
	behind := httptest.NewServer(engine)
	defer behind.Close()
	began := time.Now()
	gate := door.NewGate(1, func() time.Duration { return time.Since(began) })
	gate.Starting(1)
	gate.Ready()
	h := door.New(door.Config{Gate: gate, Key: key, Engine: behind.Listener.Addr().String(), Network: listen.System, Log: slog.New(slog.DiscardHandler)})
	defer h.CloseIdle()
	front := httptest.NewServer(h)
	defer front.Close()
	ways := []*way{{server: behind, answers: a}, {server: front, answers: a}}
	for b.Loop() {
		for _, w := range ways {
			w.ask(b)
		}
	}
	direct, through := ways[0], ways[1]
	n, part := float64(a.parts), a.part
	b.ReportMetric(direct.p50()/n, "direct-p50-ns/"+part)
	b.ReportMetric((through.p50()-direct.p50())/n, "added-p50-ns/"+part)
	b.ReportMetric(direct.cpu()/n, "direct-cpu-ns/"+part)
	b.ReportMetric((through.cpu()-direct.cpu())/n, "added-cpu-ns/"+part)
}

// way is one way to the engine, and what it took.
type way struct {
	answers
	server *httptest.Server
	took   []time.Duration // each request
	worked []time.Duration // a request, by batch
}

func (w *way) ask(b *testing.B) {
	began := processorTime(b)
	buffer := make([]byte, w.whole/w.parts)
	for range batch {
		r, err := http.NewRequestWithContext(b.Context(), http.MethodPost, w.server.URL+"/v1/chat/completions", strings.NewReader(question))
		if err != nil {
			b.Fatal(err)
		}
		r.Header.Set(wire.HeaderReplicaKey, key)
		at := time.Now()
		resp, err := w.server.Client().Do(r)
		if err != nil {
			b.Fatal(err)
		}
		for i := range w.parts {
			if _, err := io.ReadFull(resp.Body, buffer); err != nil || resp.StatusCode != http.StatusOK {
				b.Fatalf("%d, %v", resp.StatusCode, err)
			}
			if i < w.parts-1 {
				w.read()
			}
		}
		if n, err := io.Copy(io.Discard, resp.Body); n > 0 || err != nil {
			b.Fatalf("%d bytes more, %v", n, err)
		}
		w.took = append(w.took, time.Since(at))
		resp.Body.Close()
	}
	w.worked = append(w.worked, (processorTime(b)-began)/batch)
}

func (w *way) p50() float64 { return float64(median(w.took).Nanoseconds()) }
func (w *way) cpu() float64 { return float64(median(w.worked).Nanoseconds()) }

func median(list []time.Duration) time.Duration {
	slices.Sort(list)
	return list[len(list)/2]
}

// processorTime is what this process has worked so far.
func processorTime(b *testing.B) time.Duration {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_PROCESS_CPUTIME_ID, &ts); err != nil {
		b.Fatal(err)
	}
	return time.Duration(ts.Nano())
}
