package process

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strconv"
	"sync/atomic"
	"time"

	"berth/agent/shim"
	"berth/fleet"
	"berth/internal/listen"
)

// The protocol between agent and shim: HTTP/1.1 on a unix socket, JSON bodies, and the version as the first part of the
// path. A shim speaks one version for its whole life, which is as long as its engine's; an agent speaks every version
// since the first.
const (
	protocol    = 1
	prefix      = "/v1"
	readyWord   = "ready"
	longestWait = 30 * time.Second
)

// hello is what a shim says first, in every version.
type hello struct {
	Protocol int    `json:"protocol"`
	Replica  string `json:"replica"`
	Shim     uint64 `json:"shim"`
}

// control is the shim's side.
type control struct {
	mux     *http.ServeMux
	shim    *shim.Shim
	end     func()        // ends the shim's life
	ended   chan struct{} // closed when it has ended
	closing atomic.Bool   // and is to be forgotten
}

func newControl(s *shim.Shim, end func()) *control {
	c := &control{mux: http.NewServeMux(), shim: s, end: end, ended: make(chan struct{})}
	for pattern, h := range map[string]func(http.ResponseWriter, *http.Request) (any, error){
		"GET /hello":                  c.hello,
		"GET " + prefix + "/status":   c.status,
		"POST " + prefix + "/order":   c.order,
		"POST " + prefix + "/reading": c.reading,
		"GET " + prefix + "/logs":     c.logs,
		"POST " + prefix + "/kill":    c.kill,
		"POST " + prefix + "/close":   c.close,
	} {
		c.mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
			v, err := h(w, r)
			reply(w, v, err)
		})
	}
	return c
}

// ServeHTTP implements [http.Handler].
func (c *control) ServeHTTP(w http.ResponseWriter, r *http.Request) { c.mux.ServeHTTP(w, r) }

type failure struct {
	Error *fleet.Error `json:"error"`
}

// reply writes an answer, or an error with the status of its code; nothing at all when both are nil.
func reply(w http.ResponseWriter, v any, err error) {
	if v == nil && err == nil {
		return
	}
	w.Header().Set("Content-Type", "application/json")
	if err != nil {
		e := fleet.AsError(err)
		w.WriteHeader(e.Code.Status())
		v = failure{e}
	}
	_ = json.NewEncoder(w).Encode(v) // fails only when the agent is gone
}

func (c *control) hello(http.ResponseWriter, *http.Request) (any, error) {
	l := c.shim.Launch()
	return hello{Protocol: protocol, Replica: l.Order.Replica, Shim: l.Shim}, nil
}

func (c *control) status(_ http.ResponseWriter, r *http.Request) (any, error) {
	after, err := strconv.ParseUint(r.URL.Query().Get("after"), 10, 64)
	if err != nil {
		return nil, fleet.Errorf(fleet.BadRequest, "after: %v", err)
	}
	ctx, cancel := withWait(r, longestWait)
	defer cancel()
	return c.shim.Status(ctx, after), nil
}

func (c *control) order(_ http.ResponseWriter, r *http.Request) (any, error) {
	var o shim.Order
	// A field that this shim does not know is of a newer agent, and no reason to refuse an order to stop: a shim lives for as long as its engine.
	if err := json.NewDecoder(r.Body).Decode(&o); err != nil {
		return nil, fleet.Errorf(fleet.BadRequest, "order: %v", err)
	}
	return struct{}{}, c.shim.Order(o)
}

func (c *control) reading(http.ResponseWriter, *http.Request) (any, error) { return c.shim.Reading() }

// logs streams the engine's output as it is.
func (c *control) logs(w http.ResponseWriter, r *http.Request) (any, error) {
	tail, err := strconv.Atoi(r.URL.Query().Get("tail"))
	if err != nil {
		return nil, fleet.Errorf(fleet.BadRequest, "tail: %v", err)
	}
	out := c.shim.Output().Reader(tail, r.URL.Query().Get("follow") == "true")
	ctx, cancel := withWait(r, 0)
	defer cancel()
	done := make(chan struct{})
	go func() { // joined below: the reader's end ends it
		defer close(done)
		<-ctx.Done()
		out.Close()
	}()
	defer func() { cancel(); <-done }()
	rc := http.NewResponseController(w)
	_ = rc.Flush()
	buf := make([]byte, 32<<10)
	for {
		n, err := out.Read(buf)
		if _, werr := w.Write(buf[:n]); werr != nil || err == io.EOF {
			return nil, nil
		}
		_ = rc.Flush()
	}
}

func (c *control) kill(http.ResponseWriter, *http.Request) (any, error) {
	c.end()
	<-c.ended
	return struct{}{}, nil
}

func (c *control) close(w http.ResponseWriter, r *http.Request) (any, error) {
	if err := c.shim.Closable(); err != nil {
		return nil, err
	}
	c.closing.Store(true)
	return c.kill(w, r)
}

// withWait bounds a request that waits: by d, if it is not zero, by its client, and by the end of this server.
func withWait(r *http.Request, d time.Duration) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(r.Context())
	stop := func() bool { return true }
	if d > 0 {
		stop = time.AfterFunc(d, cancel).Stop
	}
	stopping := listen.Stopping(r.Context())
	go func() { // joins with the request: its context ends with it
		select {
		case <-stopping:
			cancel()
		case <-ctx.Done():
		}
	}()
	return ctx, func() { stop(); cancel() }
}
