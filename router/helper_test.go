package router

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"berth/fleet"
	"berth/fleet/wire"
	"berth/internal/listen"
	"berth/internal/memnet"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var errPeersDead = errors.New("dial: connection refused")

// peers stands for the control plane: it gives tables and keeps reports.
type peers struct {
	mu      sync.Mutex
	table   wire.Table
	changed chan struct{}
	dead    bool
	silent  bool // takes no report
	term    uint64
	sendAll bool
	reports []wire.Report
	asked   []fleet.Index
}

func newPeers() *peers {
	return &peers{changed: make(chan struct{}), term: 1, table: wire.Table{Version: 1, Cluster: "c1"}}
}

// set puts a new table up, one index later.
func (p *peers) set(rows ...wire.TableModel) {
	p.change(func() {
		p.table.Models = rows
		p.table.Index.N++
	})
}

func (p *peers) change(f func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	f()
	close(p.changed)
	p.changed = make(chan struct{})
}

func (p *peers) Table(ctx context.Context, after fleet.Index, wait time.Duration) (wire.Table, error) {
	timeout := time.NewTimer(wait)
	defer timeout.Stop()
	for first := true; ; first = false {
		p.mu.Lock()
		table, dead, changed := p.table, p.dead, p.changed
		if first {
			p.asked = append(p.asked, after)
		}
		p.mu.Unlock()
		switch {
		case dead:
			return wire.Table{}, errPeersDead
		case table.Index != after && !table.Index.IsZero():
			return table, nil
		}
		select {
		case <-changed:
		case <-timeout.C:
			return table, nil
		case <-ctx.Done():
			return wire.Table{}, ctx.Err()
		}
	}
}

func (p *peers) Report(_ context.Context, r wire.Report) (wire.ReportAnswer, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.dead || p.silent {
		return wire.ReportAnswer{}, errPeersDead
	}
	p.reports = append(p.reports, r)
	return wire.ReportAnswer{Term: p.term, Ack: r.Seq, SendAll: p.sendAll}, nil
}

// last returns the newest report that arrived.
func (p *peers) last(t *testing.T) wire.Report {
	t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.reports) == 0 {
		t.Fatal("no report arrived")
	}
	return p.reports[len(p.reports)-1]
}

// cluster is a router with its peers and engines on a network in memory. It lives in a bubble.
type cluster struct {
	*testing.T
	net    *memnet.Network
	peers  *peers
	dir    string
	client *http.Client
	router *Router
	change func(*Config)

	ctx   context.Context
	stop  context.CancelFunc // of the router
	ended chan error
	wg    sync.WaitGroup
}

const (
	clientsAt = "10.0.1.1:7380"
	opsAt     = "10.0.1.1:7381"
	base      = "http://" + clientsAt
	chatBody  = `{"model":"m","messages":[]}`
	chatPath  = "/v1/chat/completions"
)

// newCluster starts a router; change may be nil.
func newCluster(t *testing.T, change func(*Config)) *cluster {
	c := &cluster{T: t, net: memnet.New(1), peers: newPeers(), dir: t.TempDir(), change: change}
	transport := listen.Transport(c.net.Host("10.0.9.9"))
	c.client = &http.Client{Transport: transport}
	c.ctx = t.Context()
	c.start()
	t.Cleanup(func() {
		transport.CloseIdleConnections()
		c.end()
		c.wg.Wait()
	})
	return c
}

// start starts the router, again after end or kill.
func (c *cluster) start() {
	c.Helper()
	begin := time.Now()
	config := Config{Name: "r1", DataDir: c.dir, Bind: clientsAt, Ops: opsAt, Network: c.net.Host("10.0.1.1"),
		Policy: listen.Policy{InsecureNoTLS: true}, Source: c.peers, Sink: c.peers,
		Clock: func() time.Duration { return time.Since(begin) },
		Look:  24 * time.Hour} // scripted engines count what they are asked
	if testing.Verbose() {
		config.Logger = slog.New(slog.NewTextHandler(c.Output(), nil))
	}
	if c.change != nil {
		c.change(&config)
	}
	r, err := New(config)
	if err != nil {
		c.Fatal(err)
	}
	var ctx context.Context
	ctx, c.stop = context.WithCancel(context.WithoutCancel(c.ctx))
	c.router, c.ended = r, make(chan error, 1)
	ended := c.ended
	c.wg.Go(func() { ended <- r.Run(ctx) })
	time.Sleep(10 * time.Millisecond)
}

// end stops the router as SIGTERM does and waits for it.
func (c *cluster) end() {
	c.Helper()
	if c.ended == nil {
		return
	}
	c.stop()
	if err := <-c.ended; err != nil {
		c.Error(err)
	}
	c.ended = nil
}

// engine serves a scripted engine on a host of its own and returns its row of the table.
func (c *cluster) engine(id, host string, h http.HandlerFunc) wire.Endpoint {
	c.Helper()
	addr := host + ":20000"
	ln, err := c.net.Host(host).Listen(c.ctx, addr)
	if err != nil {
		c.Fatal(err)
	}
	joined := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c.wg.Add(1)
		defer c.wg.Done()
		h(w, r)
	})
	srv := &http.Server{Handler: joined, ErrorLog: log.New(io.Discard, "", 0), Protocols: new(http.Protocols)}
	srv.Protocols.SetHTTP1(true)
	c.wg.Go(func() { _ = srv.Serve(ln) })
	c.Cleanup(func() { _ = srv.Close() })
	return wire.Endpoint{Replica: id, Node: host, Address: addr, Key: "key-" + id, State: fleet.Ready, Generation: 1}
}

// asked returns the index that the newest question for a table named.
func (c *cluster) asked() fleet.Index {
	c.peers.mu.Lock()
	defer c.peers.mu.Unlock()
	return c.peers.asked[len(c.peers.asked)-1]
}

// model is a row of the table.
func model(name string, endpoints ...wire.Endpoint) wire.TableModel {
	return wire.TableModel{Name: name, Generation: 1, Max: 4, Created: 1700000000_000, Endpoints: endpoints,
		Serve: fleet.ServeSpec{Policy: "ttft", Queue: fleet.QueueSpec{Limit: 200, Timeout: fleet.Duration(time.Minute)}}}
}

// set gives the router a table and lets it arrive.
func (c *cluster) set(rows ...wire.TableModel) {
	c.peers.set(rows...)
	time.Sleep(10 * time.Millisecond)
}

// post sends a body to a path of the router.
func (c *cluster) post(path, body string) answer {
	c.Helper()
	req, err := http.NewRequestWithContext(c.ctx, http.MethodPost, base+path, strings.NewReader(body))
	if err != nil {
		c.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	return c.do(req)
}

func (c *cluster) get(url string) answer {
	c.Helper()
	req, err := http.NewRequestWithContext(c.ctx, http.MethodGet, url, nil)
	if err != nil {
		c.Fatal(err)
	}
	return c.do(req)
}

// answer is a whole answer; err is what ended it before its end.
type answer struct {
	status int
	header http.Header
	body   string
	err    error
}

func (c *cluster) do(req *http.Request) answer {
	c.Helper()
	resp, err := c.client.Do(req)
	if err != nil {
		return answer{err: err}
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	return answer{resp.StatusCode, resp.Header, string(body), err}
}

// code returns the four members of an error in OpenAI's shape, or fails the test.
func (a answer) apiError(t *testing.T) (message, kind, code string) {
	t.Helper()
	var body struct {
		Error map[string]*string `json:"error"`
	}
	if err := json.Unmarshal([]byte(a.body), &body); err != nil || len(body.Error) != 4 || body.Error["message"] == nil || body.Error["type"] == nil {
		t.Fatalf("%d %q is not OpenAI's error: %v", a.status, a.body, err)
	}
	if a.header.Get("X-Request-Id") == "" {
		t.Error("an error without X-Request-Id")
	}
	if c := body.Error["code"]; c != nil {
		code = *c
	}
	return *body.Error["message"], *body.Error["type"], code
}

// settled checks that nothing is in flight on a replica, now and in the next report.
func (c *cluster) settled(replica string) {
	c.Helper()
	time.Sleep(1100 * time.Millisecond)
	_, uses := c.router.pool.Uses(0, true)
	if u := uses[replica]; u.InFlight != 0 {
		c.Errorf("%d in flight on %s, want 0", u.InFlight, replica)
	}
	if u := c.peers.last(c.T).Uses[replica]; u.InFlight != 0 {
		c.Errorf("the report says %d in flight on %s, want 0", u.InFlight, replica)
	}
}

// ok is an engine that answers at once.
func ok(text string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"from":%q}`, text)
	}
}

// sse is an engine that streams n events, gap apart, and ends with [DONE].
func sse(n int, gap time.Duration) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
		for i := range n {
			fmt.Fprintf(w, "data: {\"n\":%d}\n\n", i)
			w.(http.Flusher).Flush()
			select {
			case <-r.Context().Done():
				return
			case <-time.After(gap):
			}
		}
		fmt.Fprint(w, "data: [DONE]\n\n")
	}
}

// reset breaks the connection, as the death of an engine does.
func reset(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }

// raw sends bytes over a connection of its own and gives the connection and a reader of it.
func (c *cluster) raw(text string) (net.Conn, *bufio.Reader) {
	c.Helper()
	conn, err := c.net.Host("10.0.9.8").Dial(c.ctx, clientsAt)
	if err != nil {
		c.Fatal(err)
	}
	c.Cleanup(func() { conn.Close() })
	_ = conn.SetReadDeadline(time.Now().Add(5 * time.Minute)) // a bubble's clock would run on for ever
	if _, err := io.Copy(conn, bytes.NewBufferString(text)); err != nil {
		c.Fatal(err)
	}
	return conn, bufio.NewReader(conn)
}

// h2c is a transport that speaks HTTP/2 in the clear to the router.
func h2c(c *cluster) http.RoundTripper {
	t := listen.TransportH2C(c.net.Host("10.0.9.7"))
	c.Cleanup(t.CloseIdleConnections)
	return t
}
