package memnet

import (
	"net"
	"sync"
)

// backlog is how many connections may wait to be accepted; more are refused. It is the default of Linux (net.core.somaxconn).
const backlog = 4096

type listener struct {
	owner *Host
	bound binding
	addr  net.Addr

	mu     sync.Mutex
	cond   *sync.Cond
	queue  []*conn
	closed bool
}

func newListener(h *Host, b binding, addr net.Addr) *listener {
	l := &listener{owner: h, bound: b, addr: addr}
	l.cond = sync.NewCond(&l.mu)
	return l
}

func (l *listener) Accept() (net.Conn, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for len(l.queue) == 0 && !l.closed {
		l.cond.Wait()
	}
	if l.closed {
		return nil, &net.OpError{Op: "accept", Net: "tcp", Addr: l.addr, Err: net.ErrClosed}
	}
	c := l.queue[0]
	l.queue = l.queue[1:]
	return c, nil
}

// Close ends the listener and resets what nobody has accepted.
func (l *listener) Close() error {
	l.mu.Lock()
	if l.closed {
		l.mu.Unlock()
		return &net.OpError{Op: "close", Net: "tcp", Addr: l.addr, Err: net.ErrClosed}
	}
	l.closed = true
	left := l.queue
	l.queue = nil
	l.cond.Broadcast()
	l.mu.Unlock()

	n := l.owner.net
	n.mu.Lock()
	delete(l.owner.node.streams, l.bound)
	delete(l.owner.node.sockets, l)
	n.mu.Unlock()
	for _, c := range left {
		c.kill()
	}
	return nil
}

func (l *listener) Addr() net.Addr { return l.addr }

// offer queues a connection, unless the listener is closed or full.
func (l *listener) offer(c *conn) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed || len(l.queue) >= backlog {
		return false
	}
	l.queue = append(l.queue, c)
	l.cond.Broadcast()
	return true
}

func (l *listener) kill()          { _ = l.Close() }
func (l *listener) process() *Host { return l.owner }
