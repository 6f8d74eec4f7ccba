package door

import (
	"context"
	"crypto/subtle"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"net/http/httputil"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"berth/fleet/wire"
	"berth/internal/listen"
)

// engineIdle is how long an unused connection to the engine is kept: less than the 5 s after which Python's and
// llama.cpp's servers close theirs, so that no request is sent into a connection that is just being closed.
const engineIdle = 2 * time.Second

// copyBuffer holds what one read of the engine's answer can give.
const copyBuffer = 32 << 10

// Config is what a Handler needs.
type Config struct {
	Gate *Gate
	// Key is what requests must carry in Berth-Replica-Key.
	Key string
	// Engine is where the engine listens: "host:port" on loopback, or "unix:" and a path.
	Engine string
	// Network reaches host:port.
	Network listen.Network
	// Log takes what goes wrong between door and engine, never a header or a body.
	Log *slog.Logger
}

// Handler is the door as HTTP: serve it with HTTP/1.1 and h2c.
type Handler struct {
	gate      *Gate
	key       []byte
	engineKey atomic.Pointer[string]
	proxy     *httputil.ReverseProxy
	transport *http.Transport
	log       *slog.Logger
}

// New makes a door. [Handler.CloseIdle] at the end lets its connections to the engine go.
func New(c Config) *Handler {
	h := &Handler{gate: c.Gate, key: []byte(c.Key), log: c.Log, transport: Transport(c.Network, c.Engine)}
	h.proxy = &httputil.ReverseProxy{
		Rewrite:       h.rewrite,
		Transport:     h.transport,
		FlushInterval: -1, // every write of the engine, and its headers before the first
		BufferPool:    &buffers{},
		ErrorHandler:  h.fail,
		ErrorLog:      slog.NewLogLogger(c.Log.Handler(), slog.LevelDebug),
	}
	return h
}

// SetEngineKey makes the door send key as the engine's API key, in place of what the client sent. "" leaves the
// client's header alone.
func (h *Handler) SetEngineKey(key string) { h.engineKey.Store(&key) }

// CloseIdle closes the unused connections to the engine; call it when the engine has ended.
func (h *Handler) CloseIdle() { h.transport.CloseIdleConnections() }

// ServeHTTP implements [http.Handler].
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if subtle.ConstantTimeCompare([]byte(r.Header.Get(wire.HeaderReplicaKey)), h.key) != 1 {
		refuse(w, r, wire.DoorWrongKey)
		return
	}
	switch classify(r) {
	case closed:
		refuse(w, r, wire.DoorRoute)
	case look:
		h.pass(w, r)
	case use:
		done, why := h.gate.Admit()
		if why != "" {
			refuse(w, r, why)
			return
		}
		defer done() // on every path: also when the proxy panics to cut a broken answer
		h.pass(w, r)
	}
}

func (h *Handler) pass(w http.ResponseWriter, r *http.Request) {
	// An engine may answer before it has read the whole request. Without this, net/http's server then reads the rest of the request away from the
	// proxy before it sends the answer's headers; the proxy's own reading fails, it breaks off with the engine, and the stream is cut.
	_ = http.NewResponseController(w).EnableFullDuplex() // HTTP/2 is always so; any other writer has nothing to enable
	h.proxy.ServeHTTP(shield{w}, r)
	// What is in the header now goes out as a trailer.
	w.Header().Del(wire.HeaderDoor)
	w.Header().Del(http.TrailerPrefix + wire.HeaderDoor)
}

// rewrite addresses the request to the engine. ReverseProxy has dropped hop-by-hop and forwarding headers from Out.
func (h *Handler) rewrite(p *httputil.ProxyRequest) {
	p.Out.URL.Scheme, p.Out.URL.Host = "http", "engine"
	p.Out.Host = "localhost"
	p.Out.Header.Del(wire.HeaderReplicaKey)
	p.Out.Header.Del("Upgrade") // no serving route changes protocol
	p.Out.Header.Del("Connection")
	if key := h.engineKey.Load(); key != nil && *key != "" {
		p.Out.Header.Set("Authorization", "Bearer "+*key)
	}
}

// fail answers when the engine gave no answer. An engine that could not be dialled has not seen the request, which is
// a refusal that any other replica may take up; whatever came later is a failure of the engine.
func (h *Handler) fail(w http.ResponseWriter, r *http.Request, err error) {
	if r.Context().Err() != nil {
		panic(http.ErrAbortHandler) // the client has gone; nothing can be said to it
	}
	h.log.Warn("the engine did not answer", "path", r.URL.Path, "error", err)
	if op := new(net.OpError); errors.As(err, &op) && op.Op == "dial" {
		if s, ok := w.(shield); ok {
			w = s.ResponseWriter // the door's own word, not the engine's
		}
		refuse(w, r, wire.DoorStarting)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusBadGateway)
	_, _ = w.Write([]byte(`{"error":{"code":"internal","message":"the engine ended the request without an answer"}}` + "\n"))
}

// shield keeps the engine from speaking as the door, in final and in informational answers.
type shield struct{ http.ResponseWriter }

func (s shield) WriteHeader(code int) {
	s.Header().Del(wire.HeaderDoor)
	s.ResponseWriter.WriteHeader(code)
}

// Unwrap lets http.ResponseController reach the writer.
func (s shield) Unwrap() http.ResponseWriter { return s.ResponseWriter }

// Transport reaches one engine, whatever address a request names: HTTP/1.1, no proxy, no compression of its own.
func Transport(network listen.Network, engine string) *http.Transport {
	t := listen.Transport(network)
	t.DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) {
		ctx, cancel := context.WithTimeout(ctx, listen.DialTimeout)
		defer cancel()
		if path, ok := strings.CutPrefix(engine, "unix:"); ok {
			var d net.Dialer
			return d.DialContext(ctx, "unix", path)
		}
		return network.Dial(ctx, engine)
	}
	t.IdleConnTimeout = engineIdle
	return t
}

// buffers are shared by the answers of one door.
type buffers struct{ pool sync.Pool }

// Get implements [httputil.BufferPool].
func (b *buffers) Get() []byte {
	if p, ok := b.pool.Get().(*[]byte); ok {
		return *p
	}
	return make([]byte, copyBuffer)
}

// Put implements [httputil.BufferPool].
func (b *buffers) Put(p []byte) { b.pool.Put(&p) }
