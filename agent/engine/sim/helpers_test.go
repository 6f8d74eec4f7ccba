package sim

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"berth/internal/memnet"
)

// newNet is one host's network in memory.
func newNet() *memnet.Host { return memnet.New(1).Host("gpu-017") }

// running is an engine in its own goroutine and a client of it.
type running struct {
	*Engine
	t      *testing.T
	client *http.Client
	err    error
	done   chan struct{}
	kill   context.CancelFunc
}

func start(t *testing.T, n *memnet.Host, cfg Config) *running {
	t.Helper()
	if cfg.Model == "" {
		cfg.Model = "m"
	}
	cfg.Listen, cfg.Dial = n.Listen, n.Dial
	e, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	ctx, kill := context.WithCancel(t.Context())
	r := &running{Engine: e, t: t, done: make(chan struct{}), kill: kill}
	addr := e.cfg.address()
	r.client = &http.Client{Transport: &http.Transport{
		DisableCompression: true,
		DialContext:        func(ctx context.Context, _, _ string) (net.Conn, error) { return n.Dial(ctx, addr) },
	}}
	go func() {
		defer close(r.done)
		r.err = e.Run(ctx)
	}()
	t.Cleanup(func() {
		kill()
		<-r.done
		r.client.CloseIdleConnections()
	})
	return r
}

// exit waits for the engine's end.
func (r *running) exit() error {
	<-r.done
	return r.err
}

func (r *running) wantExit(code int) {
	r.t.Helper()
	var exit *ExitError
	if err := r.exit(); !errors.As(err, &exit) || exit.Code != code {
		r.t.Errorf("Run returned %v, want exit code %d", err, code)
	}
}

func (r *running) do(ctx context.Context, method, path, body string) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, method, "http://sim"+path, strings.NewReader(body))
	if err != nil {
		r.t.Fatal(err)
	}
	return r.client.Do(req)
}

// call returns status and body of an answer that must come.
func (r *running) call(method, path, body string) (int, string) {
	r.t.Helper()
	resp, err := r.do(r.t.Context(), method, path, body)
	if err != nil {
		r.t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		r.t.Fatal(err)
	}
	return resp.StatusCode, string(b)
}

// event is a server-sent event and when it came.
type event struct {
	at   time.Duration
	data string
}

// stream sends body and reads events until the end; err is how the body ended.
func (r *running) stream(ctx context.Context, path, body string) (events []event, err error) {
	began := time.Now()
	resp, err := r.do(ctx, http.MethodPost, path, body)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	scan := bufio.NewScanner(resp.Body)
	for scan.Scan() {
		if data, ok := strings.CutPrefix(scan.Text(), "data: "); ok {
			events = append(events, event{time.Since(began), data})
		}
	}
	return events, scan.Err()
}

// metric sums the samples whose line starts with name, from /metrics.
func (r *running) metric(name string) float64 {
	r.t.Helper()
	_, body := r.call("GET", "/metrics", "")
	var sum float64
	found := false
	for line := range strings.Lines(body) {
		if rest, ok := strings.CutPrefix(line, name); ok && (rest[0] == '{' || rest[0] == ' ' || strings.HasSuffix(name, "}")) {
			fields := strings.Fields(line)
			var v float64
			if err := json.Unmarshal([]byte(fields[len(fields)-1]), &v); err != nil {
				r.t.Fatalf("%q: %v", line, err)
			}
			sum += v
			found = true
		}
	}
	if !found {
		r.t.Fatalf("no metric %s in\n%s", name, body)
	}
	return sum
}

func (r *running) wantMetric(name string, want float64) {
	r.t.Helper()
	if got := r.metric(name); got != want {
		r.t.Errorf("%s is %v, want %v", name, got, want)
	}
}

func (r *running) last() Record {
	r.t.Helper()
	all := r.Requests()
	if len(all) == 0 {
		r.t.Fatal("no request is recorded")
	}
	return all[len(all)-1]
}

func (r *running) wantOutcome(o Outcome) {
	r.t.Helper()
	if got := r.last(); got.Outcome != o {
		r.t.Errorf("outcome %+v, want %s", got, o)
	}
}
