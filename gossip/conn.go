package gossip

import (
	"net"
	"sync"
)

// conn is a stream that Shutdown can end. It keeps the first bytes that it received, to tell an operator what answered.
type conn struct {
	net.Conn
	of *transport

	mu    sync.Mutex
	first []byte
}

// firstBytes is enough to know HTTP, TLS, SSH and memberlist apart.
const firstBytes = 8

// track registers a stream, or closes it if the transport is closed.
func (t *transport) track(c net.Conn) (*conn, bool) {
	tracked := &conn{Conn: c, of: t}
	t.mu.Lock()
	closed := t.closed
	if !closed {
		t.conns[tracked] = struct{}{}
	}
	t.mu.Unlock()
	if closed {
		_ = c.Close()
	}
	return tracked, !closed
}

func (c *conn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	c.mu.Lock()
	defer c.mu.Unlock()
	if missing := firstBytes - len(c.first); missing > 0 {
		c.first = append(c.first, b[:min(n, missing)]...)
	}
	return n, err
}

func (c *conn) Close() error {
	c.of.mu.Lock()
	delete(c.of.conns, c)
	c.of.mu.Unlock()
	return c.Conn.Close()
}

// attempt is what was seen of one join on the wire.
type attempt struct {
	dial error
	conn *conn
}

// answer is the beginning of what came back; nil when nothing did.
func (a *attempt) answer() []byte {
	if a.conn == nil {
		return nil
	}
	a.conn.mu.Lock()
	defer a.conn.mu.Unlock()
	return a.conn.first
}

// attempt begins to watch the join of an address. The function it gives ends that.
func (t *transport) attempt(addr string) (a *attempt, done func()) {
	a = &attempt{}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.attempts[addr] = a
	return a, func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		delete(t.attempts, addr)
	}
}
