package integration

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"berth/demo/stage"
	"berth/fleet"
	"berth/fleet/wire"
	"berth/internal/procs"
)

// tablePeer answers routers as a peer does, with one table, and keeps what they report.
type tablePeer struct {
	table wire.Table

	mu      sync.Mutex
	reports []wire.Report
}

func (p *tablePeer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("X-Berth-Index", p.table.Index.String())
	if strings.HasSuffix(r.URL.Path, "/table") {
		if r.URL.Query().Has("index") {
			select {
			case <-r.Context().Done():
				return
			case <-time.After(time.Second):
			}
		}
		_ = json.NewEncoder(w).Encode(p.table)
		return
	}
	var report wire.Report
	if err := json.NewDecoder(r.Body).Decode(&report); err != nil {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.reports = append(p.reports, report)
	_ = json.NewEncoder(w).Encode(wire.ReportAnswer{Term: 1, Ack: report.Seq})
}

// last is the newest report of a start.
func (p *tablePeer) last(boot uint64) (wire.Report, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i := len(p.reports) - 1; i >= 0; i-- {
		if p.reports[i].Boot == boot {
			return p.reports[i], true
		}
	}
	return wire.Report{}, false
}

// slowStream is how long the test's long answers take: longer than a router goes on to take requests after it was told to end.
const slowStream = 8 * time.Second

func streamingEngine(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	if !strings.Contains(string(body), `"stream":true`) {
		fmt.Fprint(w, `{"ok":true}`)
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	for begin := time.Now(); time.Since(begin) < slowStream; {
		fmt.Fprint(w, "data: {}\n\n")
		w.(http.Flusher).Flush()
		select {
		case <-r.Context().Done():
			return
		case <-time.After(100 * time.Millisecond):
		}
	}
	fmt.Fprint(w, "data: [DONE]\n\n")
}

// A router is replaced by a newer process twice, under load on kept and on new connections and across long streams, and
// not one request fails. Each process sends a last report when it ends, in which nothing is in flight.
func TestRouterIsReplacedWithoutAFailedRequest(t *testing.T) {
	engine := httptest.NewServer(http.HandlerFunc(streamingEngine))
	t.Cleanup(engine.Close)
	peer := &tablePeer{table: wire.Table{Version: wire.Version, Cluster: "c", Index: fleet.Index{Epoch: 1, N: 7}, Models: []wire.TableModel{{Name: "m", Generation: 1, Max: 1,
		Serve:     fleet.ServeSpec{Policy: "ttft", Queue: fleet.QueueSpec{Limit: 10, Timeout: fleet.Duration(time.Minute)}},
		Endpoints: []wire.Endpoint{{Replica: "r", Node: "n", Generation: 1, Address: engine.Listener.Addr().String(), Key: "k", State: fleet.Ready}}}}}}
	peers := httptest.NewServer(peer)
	t.Cleanup(peers.Close)
	first, err := ports.Take(2)
	if err != nil {
		t.Fatal(err)
	}
	g, err := procs.NewGroup("berth-integration-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := g.Close(stage.Patience); err != nil {
			t.Error(err)
		}
	})
	bind, opsBind := fmt.Sprintf("127.0.0.1:%d", first), fmt.Sprintf("127.0.0.1:%d", first+1)
	start := func() *procs.Process {
		p, err := g.Start("router", filepath.Join(programs(t), "berth"), "router", "--name", "r1", "--data-dir", g.Path("router"), "--bind", bind, "--ops-bind", opsBind,
			"--peer", peers.URL, "--share-ports")
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	load := &load{url: "http://" + bind}
	old := start()
	until(t, 20*time.Second, func(ctx context.Context) error { return load.ask(ctx, http.DefaultClient, `{"model":"m"}`) })
	load.run(t)
	for boot := uint64(1); boot <= 2; boot++ {
		next := start()
		if err := old.Signal(syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
		select {
		case <-old.Done():
		case <-time.After(40 * time.Second):
			t.Fatalf("router %d has not ended", boot)
		}
		if code := old.ExitCode(); code != 0 {
			t.Errorf("router %d ended with %d:\n%s", boot, code, strings.Join(old.Log(10), "\n"))
		}
		if r, ok := peer.last(boot); !ok || r.Uses["r"].InFlight != 0 {
			t.Errorf("the last report of start %d: %+v", boot, r)
		}
		old = next
	}
	load.stop()
	t.Logf("%d requests and %d streams, %d failed", load.requests.Load(), load.streams.Load(), load.failed.Load())
	if load.failed.Load() > 0 || load.requests.Load() < 100 || load.streams.Load() < 4 {
		t.Errorf("first failure: %v", load.first)
	}
}

// load is clients that go on until they are stopped.
type load struct {
	url                       string
	requests, streams, failed atomic.Int64
	once                      sync.Once
	first                     error
	cancel                    context.CancelFunc
	wg                        sync.WaitGroup
}

func (l *load) run(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	l.cancel = cancel
	client := func(keep bool, count *atomic.Int64, body string) {
		transport := &http.Transport{DisableKeepAlives: !keep}
		l.wg.Go(func() {
			defer transport.CloseIdleConnections()
			for ctx.Err() == nil {
				if err := l.ask(context.WithoutCancel(ctx), &http.Client{Transport: transport}, body); err != nil {
					l.failed.Add(1)
					l.once.Do(func() { l.first = err })
				}
				count.Add(1)
				select {
				case <-ctx.Done():
				case <-time.After(10 * time.Millisecond): // two cores are shared with the routers
				}
			}
		})
	}
	for range 4 {
		client(true, &l.requests, `{"model":"m"}`)
		client(false, &l.requests, `{"model":"m"}`)
	}
	for range 2 {
		client(true, &l.streams, `{"model":"m","stream":true}`)
	}
}

func (l *load) stop() {
	l.cancel()
	l.wg.Wait()
}

// ask sends one request, which nobody may repeat, and reads its whole answer.
func (l *load) ask(ctx context.Context, client *http.Client, body string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, l.url+"/v1/chat/completions", struct{ io.Reader }{strings.NewReader(body)})
	if err != nil {
		return err
	}
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err == nil && (resp.StatusCode != http.StatusOK || strings.Contains(body, "stream") && !strings.HasSuffix(string(text), "[DONE]\n\n")) {
		err = fmt.Errorf("%d %.200s", resp.StatusCode, text)
	}
	return err
}
