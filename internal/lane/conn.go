package lane

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"sync"
	"syscall"
	"time"

	"berth/internal/plain"
)

// conn is one connection of a client. All but gone and what belongs to it is used by the connection's goroutine alone.
type conn struct {
	server  *Listener
	net     net.Conn
	in      *plain.Reader
	raw     syscall.RawConn // nil: nobody tells of the connection's end, see ahead
	number  uint64          // among those that are watched
	origin  http.Request    // what all requests of the connection have alike
	current time.Time       // the read deadline that is set

	ahead *ahead // nil: never read ahead

	mu     sync.Mutex
	cancel context.CancelCauseFunc // of the request that is being answered; nil: none
	gone   bool                    // the client has ended the connection
	closed bool                    // by the server, while idle
}

func newConn(l *Listener, n net.Conn) *conn {
	c := &conn{server: l, net: n, in: plain.NewReader(n), origin: http.Request{Method: http.MethodPost, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, RemoteAddr: n.RemoteAddr().String()}}
	c.raw = c.in.Socket()
	return c
}

// serve answers requests until one is not plain, or the connection ends.
func (c *conn) serve() {
	patience := c.server.o.HeaderTimeout
	for {
		if c.in.Buffered() == 0 {
			c.deadline(time.Now().Add(patience))
			if c.fill() != nil {
				break
			}
		}
		h, n, ok := parse(c.in.Bytes(), c.server.o.Paths, c.server.o.MaxBody)
		if !ok {
			c.leave()
			return
		}
		c.in.Take(n)
		if !c.answer(&h) {
			break
		}
		patience = c.server.o.IdleTimeout
	}
	c.end()
}

// leave gives the connection to net/http, with what was read of it.
func (c *conn) leave() {
	rest := append([]byte(nil), c.in.Bytes()...)
	c.in.Take(len(rest))
	c.server.forget(c)
	if c.deadline(time.Time{}) != nil || !c.server.give(&begun{Conn: c.net, rest: rest}) {
		_ = c.net.Close()
	}
	c.server.state(c.net, http.StateClosed)
}

func (c *conn) end() {
	c.in.Take(c.in.Buffered())
	c.server.forget(c)
	_ = c.net.Close()
	c.server.state(c.net, http.StateClosed)
}

// begun is a connection of which something was read before.
type begun struct {
	net.Conn
	rest []byte
}

// Read implements net.Conn.
func (b *begun) Read(p []byte) (int, error) {
	if len(b.rest) > 0 {
		n := copy(p, b.rest)
		b.rest = b.rest[n:]
		return n, nil
	}
	return b.Conn.Read(p)
}

// deadline sets the read deadline, unless the one there is is about the same: setting one costs more than a look at it.
func (c *conn) deadline(t time.Time) error {
	if d := t.Sub(c.current); !t.IsZero() && !c.current.IsZero() && d >= 0 && d < time.Second {
		return nil
	}
	c.current = t
	return c.net.SetReadDeadline(t)
}

// fill waits for bytes.
func (c *conn) fill() error {
	if a := c.ahead; a != nil && a.n > 0 {
		a.n = 0
		c.in.Preload(a.b[0]) // what follows has mostly come too, and a head that seems cut would leave the lane
	}
	return c.in.Fill()
}

// answer has the handler answer one request and says whether the connection goes on.
func (c *conn) answer(h *head) bool {
	ctx, cancel := context.WithCancelCause(c.server.o.Base)
	defer cancel(nil)
	r := c.origin.WithContext(ctx)
	r.URL, r.RequestURI, r.Host, r.Header, r.ContentLength, r.Close = &url.URL{Path: h.path}, h.path, h.host, h.header, h.length, h.close
	b := &body{conn: c, left: h.length}
	r.Body = b
	if h.length == 0 {
		r.Body = http.NoBody
	}
	if !c.begin(cancel) {
		return false
	}
	if b.left == 0 || int64(c.in.Buffered()) >= b.left {
		c.readAhead()
	}
	w := &response{conn: c, body: b, header: make(http.Header, 8), length: -1, close: h.close}
	fine := c.server.call(w, r)
	keep := w.finish(fine)
	c.stopAhead()
	return c.finish() && keep
}

// begin makes the connection a busy one; false means that it was closed.
func (c *conn) begin(cancel context.CancelCauseFunc) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return false
	}
	if c.cancel = cancel; c.gone {
		cancel(nil)
	}
	return true
}

// finish makes it an idle one; false means that it must be closed.
func (c *conn) finish() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.cancel = nil
	return !c.gone && !c.server.closing.Load()
}

// hungUp notes that the client has ended the connection.
func (c *conn) hungUp() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.gone = true; c.cancel != nil {
		c.cancel(nil)
	}
}

// closeIdle closes the connection if no request is being answered.
func (c *conn) closeIdle() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.cancel == nil {
		c.closed = true
		_ = c.net.Close()
	}
}

// body is a request's body.
type body struct {
	conn *conn
	left int64
	err  error // that ended it early
}

// Read implements io.Reader.
func (b *body) Read(p []byte) (int, error) {
	c := b.conn
	switch {
	case b.left == 0:
		return 0, io.EOF
	case b.err != nil:
		return 0, b.err
	case len(p) == 0:
		return 0, nil
	}
	p = p[:min(int64(len(p)), b.left)]
	n, err := c.in.Read(p)
	if b.left -= int64(n); b.left == 0 {
		c.readAhead()
	}
	switch {
	case b.left == 0:
		return n, io.EOF
	case err == io.EOF:
		err = io.ErrUnexpectedEOF
	}
	b.err = err
	return n, err
}

// Close implements io.Closer. What is left is read when the answer is done.
func (b *body) Close() error { return nil }

// ahead reads one byte while a request is being answered, on a connection without a socket, to learn of the client's end.
type ahead struct {
	b    [1]byte
	n    int
	done chan struct{}
}

func (c *conn) readAhead() {
	if c.raw != nil || c.ahead != nil && (c.ahead.done != nil || c.ahead.n > 0) {
		return
	}
	a := &ahead{done: make(chan struct{})}
	c.ahead = a
	_ = c.deadline(time.Time{})
	go func() {
		defer close(a.done)
		n, err := c.net.Read(a.b[:])
		if a.n = n; err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
			c.hungUp()
		}
	}()
}

func (c *conn) stopAhead() {
	if c.ahead == nil || c.ahead.done == nil {
		return
	}
	_ = c.net.SetReadDeadline(time.Unix(1, 0))
	<-c.ahead.done
	c.ahead.done = nil
	c.current = time.Unix(1, 0)
	_ = c.deadline(time.Time{})
}
