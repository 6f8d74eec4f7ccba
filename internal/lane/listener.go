package lane

import (
	"context"
	"crypto/tls"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"
)

// Options say what is plain, and who answers it.
type Options struct {
	Handler http.Handler
	// Paths says whether requests on a path are taken. MaxBody is the most bytes that one may have.
	Paths   func(path string) bool
	MaxBody int64
	// Base is the context of all requests. Its end does not end the listener.
	Base context.Context
	// HeaderTimeout bounds the wait for the first request on a connection, IdleTimeout that for each later one.
	HeaderTimeout, IdleTimeout time.Duration
	// State is told of connections that begin and end, as in http.Server.
	State func(net.Conn, http.ConnState)
	Log   *slog.Logger
}

// Listener accepts connections from another one, serves those that are plain, and gives the others to whoever accepts
// from it: an http.Server.
type Listener struct {
	net.Listener
	o       Options
	hangups *hangups // nil before the first connection with a socket, and where the system has none; see ahead
	others  chan net.Conn
	closing atomic.Bool
	stopped chan struct{} // by Close
	once    sync.Once
	failed  chan struct{} // there will be no more connections
	today   atomic.Pointer[date]

	mu    sync.Mutex
	conns map[*conn]struct{}
	err   error // of the listener below; written before failed is closed
	blind bool  // there can be no hangups
	wg    sync.WaitGroup
}

// New takes a listener and begins to serve. Close ends the taking of connections and those that are
// idle, Kill all others, and Wait waits for the end of everything.
func New(ln net.Listener, o Options) *Listener {
	l := &Listener{Listener: ln, o: o, others: make(chan net.Conn), stopped: make(chan struct{}), failed: make(chan struct{}), conns: make(map[*conn]struct{})}
	l.wg.Go(l.accept)
	return l
}

func (l *Listener) accept() {
	for {
		n, err := l.Listener.Accept()
		if err != nil {
			if temporary, ok := err.(interface{ Temporary() bool }); ok && temporary.Temporary() && !l.closing.Load() {
				time.Sleep(5 * time.Millisecond) // too many files open, mostly
				continue
			}
			l.err = err
			close(l.failed)
			return
		}
		if _, encrypted := n.(*tls.Conn); encrypted {
			if !l.give(n) {
				_ = n.Close()
			}
			continue
		}
		c := newConn(l, n)
		l.state(n, http.StateNew)
		if !l.remember(c) {
			c.end()
			continue
		}
		l.wg.Go(c.serve)
	}
}

func (l *Listener) state(n net.Conn, s http.ConnState) {
	if l.o.State != nil {
		l.o.State(n, s)
	}
}

// remember counts a connection in, unless the listener is closed, and has it watched.
func (l *Listener) remember(c *conn) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closing.Load() {
		return false
	}
	l.conns[c] = struct{}{}
	if c.raw != nil && !l.watch(c) {
		c.raw = nil
	}
	return true
}

// watch has the kernel tell of a connection's end. The lock is held.
func (l *Listener) watch(c *conn) bool {
	if l.hangups == nil && !l.blind {
		h, err := newHangups()
		if l.blind = err != nil; l.blind && !errors.Is(err, errors.ErrUnsupported) {
			l.o.Log.Warn("the kernel does not tell of clients that go away; reading ahead instead", "error", err)
		}
		if l.hangups = h; h != nil {
			l.wg.Go(h.run)
		}
	}
	return !l.blind && l.hangups.add(c)
}

func (l *Listener) forget(c *conn) {
	if c.raw != nil {
		l.hangups.remove(c)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.conns, c)
}

// give hands a connection to Accept.
func (l *Listener) give(n net.Conn) bool {
	select {
	case l.others <- n:
		return true
	case <-l.stopped:
		return false
	case <-l.failed:
		return false
	}
}

// Accept implements net.Listener: it gives the connections that are not plain.
func (l *Listener) Accept() (net.Conn, error) {
	select {
	case n := <-l.others:
		return n, nil
	case <-l.failed:
		return nil, l.err
	}
}

// Close implements net.Listener. Requests that are being answered go on, and their connections end with them.
func (l *Listener) Close() error {
	l.mu.Lock()
	l.closing.Store(true)
	l.once.Do(func() { close(l.stopped) })
	for c := range l.conns {
		c.closeIdle()
	}
	l.mu.Unlock()
	return l.Listener.Close()
}

// Kill closes all connections.
func (l *Listener) Kill() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for c := range l.conns {
		_ = c.net.Close()
	}
}

// Wait waits until nothing of the listener runs any more. Close comes before it.
func (l *Listener) Wait() {
	l.mu.Lock()
	h := l.hangups
	l.mu.Unlock()
	if h != nil {
		h.close()
	}
	l.wg.Wait()
}

// call has the handler answer. It returns false when that ended in a panic, of which ErrAbortHandler is the usual one.
func (l *Listener) call(w http.ResponseWriter, r *http.Request) (fine bool) {
	defer func() {
		if v := recover(); v != nil && v != http.ErrAbortHandler {
			l.o.Log.Error("a handler has panicked", "panic", v, "stack", string(debug.Stack()))
		}
	}()
	l.o.Handler.ServeHTTP(w, r)
	return true
}

type date struct {
	second int64
	text   string
}

// date is the value of the header Date, made once a second.
func (l *Listener) date() string {
	now := time.Now()
	d := l.today.Load()
	if d == nil || d.second != now.Unix() {
		d = &date{now.Unix(), now.UTC().Format(http.TimeFormat)}
		l.today.Store(d)
	}
	return d.text
}
