package listen

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"

	"berth/internal/lane"
)

// Limits of every HTTP server. There is no limit on the time of a whole request or answer: streams last for minutes
// and blocking queries for half of one. A handler that wants a limit sets it with [http.ResponseController].
const (
	ReadHeaderTimeout = 5 * time.Second  // a client that dribbles its headers costs a connection for this long at most
	IdleTimeout       = 60 * time.Second // an unused kept-alive connection
	MaxHeaderBytes    = 64 << 10

	defaultDrain = 10 * time.Second
	// lastWord is how long a handler has to tell its client that its request is cut, before the connection is closed.
	lastWord = time.Second
	// joinGrace is how long a handler may take to notice that its request was cut, before it is reported as stuck.
	joinGrace = 5 * time.Second
)

// ServerOptions are what servers differ in. The zero value is good.
type ServerOptions struct {
	// H2C also serves HTTP/2 in the clear to clients that begin with it (prior knowledge, RFC 9113 §3.3).
	H2C bool
	// Drain is how long requests in flight may go on after the context has ended; 0 means 10 s.
	Drain time.Duration
	// Log receives what the server itself has to say. Nil discards it.
	Log *slog.Logger
	// Plain, if set, says for which paths a plain POST of at most PlainBody bytes over HTTP/1.1 goes by package lane, which
	// costs less than net/http. For the handler the two are the same.
	Plain     func(path string) bool
	PlainBody int64
	// ConnState is told of every change of a connection's state, as in [http.Server]. Optional.
	ConnState func(net.Conn, http.ConnState)
}

// ErrCut is the cause of a request's context (see [context.Cause]) that ended because the server did not wait any longer.
var ErrCut = errors.New("the server stops")

type stoppingKey struct{}

// Stopping gives a channel that is closed when the server of this request begins to stop. Requests in flight are not
// cancelled at that moment, so a handler that waits or streams without end should watch it and finish. Outside
// [ServeHTTP] the channel is nil and never ready.
func Stopping(ctx context.Context) <-chan struct{} {
	ch, _ := ctx.Value(stoppingKey{}).(<-chan struct{})
	return ch
}

// ServeHTTP serves until the context ends, then stops: the listener closes, idle connections close, requests in flight
// have Drain to finish and are cut after it. Before it returns, every handler and connection has ended. It returns nil
// after such a stop, also if requests were cut; an error means that the listener failed by itself, or that a handler
// still ran 5 s after its request was cut. The listener is closed in every case.
//
// Requests carry the values of ctx but not its end: their contexts are cancelled when the client goes, or when they
// are cut: with [ErrCut] as the cause and a second to tell the client, by what they flush. The answer then ends abnormally.
func ServeHTTP(ctx context.Context, ln net.Listener, h http.Handler, o ServerOptions) error {
	base, cut := context.WithCancelCause(context.WithValue(context.WithoutCancel(ctx), stoppingKey{}, ctx.Done()))
	defer cut(nil)
	live := newTracker()
	srv := newServer(base, h, live, o)
	kill := func() {}
	if o.Plain != nil {
		fast := plain(base, ln, srv, o)
		ln, kill = fast, fast.Kill
		defer fast.Wait()
	}

	served := make(chan error, 1)
	go func() { served <- srv.Serve(ln) }()
	select {
	case <-ctx.Done():
		err := stop(srv, live, cut, kill, o)
		<-served
		return err
	case err := <-served:
		err = fmt.Errorf("serve %s: %w", ln.Addr(), err)
		return errors.Join(err, stop(srv, live, cut, kill, o))
	}
}

func newServer(base context.Context, h http.Handler, live *tracker, o ServerOptions) *http.Server {
	log := o.Log
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	protocols.SetUnencryptedHTTP2(o.H2C)
	protocols.SetHTTP2(o.H2C) // over TLS, when the listener has it
	return &http.Server{
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			live.begin()
			defer live.end()
			h.ServeHTTP(w, r)
			if context.Cause(r.Context()) == ErrCut {
				panic(http.ErrAbortHandler) // what was not flushed is not whole, and must not look so
			}
		}),
		BaseContext:       func(net.Listener) context.Context { return base },
		ReadHeaderTimeout: ReadHeaderTimeout,
		IdleTimeout:       IdleTimeout,
		MaxHeaderBytes:    MaxHeaderBytes,
		Protocols:         protocols,
		ErrorLog:          slog.NewLogLogger(log.Handler(), slog.LevelDebug), // mostly what clients did wrong
		ConnState: func(c net.Conn, s http.ConnState) {
			live.conn(c, s)
			if o.ConnState != nil {
				o.ConnState(c, s)
			}
		},
	}
}

// plain puts the lane for plain requests before the server.
func plain(base context.Context, ln net.Listener, srv *http.Server, o ServerOptions) *lane.Listener {
	log := o.Log
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	return lane.New(ln, lane.Options{Handler: srv.Handler, Paths: o.Plain, MaxBody: o.PlainBody, Base: base,
		HeaderTimeout: ReadHeaderTimeout, IdleTimeout: IdleTimeout, State: srv.ConnState, Log: log})
}

// stop ends the server in three steps: it lets requests finish, cuts those that did not, and waits for all to be gone.
func stop(srv *http.Server, live *tracker, cut context.CancelCauseFunc, kill func(), o ServerOptions) error {
	drain := o.Drain
	if drain == 0 {
		drain = defaultDrain
	}
	patience, done := context.WithTimeout(context.Background(), drain)
	defer done()
	// Shutdown waits neither for a handler that took over its connection nor for the last steps of a closed one, so
	// its success is not yet the end; its only failures are a listener that was closed before and the end of patience.
	_ = srv.Shutdown(patience)
	quiet := live.quiet()
	select {
	case <-quiet:
		return nil
	case <-patience.Done():
	}
	if o.Log != nil {
		o.Log.Warn("requests cut at shutdown", "requests", live.requests(), "after", drain)
	}
	cut(ErrCut)
	word := time.NewTimer(lastWord)
	defer word.Stop()
	select {
	case <-quiet: // not sooner: to close a connection on which the client is still sending may cost it the last that was sent
		return nil
	case <-word.C:
	}
	_ = srv.Close()
	kill()
	late := time.NewTimer(joinGrace)
	defer late.Stop()
	select {
	case <-quiet:
		return nil
	case <-late.C:
		return fmt.Errorf("stop serving: %d handlers still run %v after their requests were cut", live.requests(), joinGrace)
	}
}

// tracker counts running handlers and open connections, so that the end of a server can be waited for.
type tracker struct {
	mu       sync.Mutex
	handlers int
	conns    map[net.Conn]struct{}
	waiting  chan struct{} // closed when nothing is left; nil while nobody waits
}

func newTracker() *tracker { return &tracker{conns: make(map[net.Conn]struct{})} }

func (t *tracker) begin() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.handlers++
}

func (t *tracker) end() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.handlers--
	t.tell()
}

func (t *tracker) conn(c net.Conn, s http.ConnState) {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch s {
	case http.StateNew:
		t.conns[c] = struct{}{}
	case http.StateClosed, http.StateHijacked:
		delete(t.conns, c)
		t.tell()
	}
}

func (t *tracker) requests() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.handlers
}

// quiet gives a channel that is closed once no handler runs and no connection is open.
func (t *tracker) quiet() <-chan struct{} {
	t.mu.Lock()
	defer t.mu.Unlock()
	ch := make(chan struct{})
	t.waiting = ch
	t.tell()
	return ch
}

func (t *tracker) tell() {
	if t.waiting != nil && t.handlers == 0 && len(t.conns) == 0 {
		close(t.waiting)
		t.waiting = nil
	}
}
