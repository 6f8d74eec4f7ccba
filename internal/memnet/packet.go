package memnet

import (
	"net"
	"os"
	"sync"
	"syscall"
	"time"
)

const (
	packetQueue = 1024  // datagrams a socket holds unread; more are lost, as with a full receive buffer
	maxPacket   = 65507 // largest payload of UDP over IPv4
)

type packetConn struct {
	owner *Host
	bound binding
	addr  net.Addr

	mu      sync.Mutex
	cond    *sync.Cond
	queue   []datagram
	closed  bool
	readEnd deadline
}

type datagram struct {
	data []byte
	from net.Addr
	at   time.Time
}

func newPacketConn(h *Host, b binding, addr net.Addr) *packetConn {
	p := &packetConn{owner: h, bound: b, addr: addr}
	p.cond = sync.NewCond(&p.mu)
	return p
}

// ReadFrom gives the next datagram that has arrived; what does not fit is cut off, as the kernel does.
func (p *packetConn) ReadFrom(b []byte) (int, net.Addr, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for {
		switch {
		case p.closed:
			return 0, nil, p.wrap("read", net.ErrClosed)
		case p.readEnd.passed():
			return 0, nil, p.wrap("read", os.ErrDeadlineExceeded)
		case len(p.queue) > 0 && !p.queue[0].at.After(time.Now()):
			d := p.queue[0]
			p.queue = p.queue[1:]
			return copy(b, d.data), d.from, nil
		}
		p.cond.Wait()
	}
}

// WriteTo sends a datagram. As with UDP, success says nothing about its arrival.
func (p *packetConn) WriteTo(b []byte, addr net.Addr) (int, error) {
	host, port, err := split(addr.String())
	if err != nil {
		return 0, p.wrap("write", err)
	}
	p.mu.Lock()
	closed := p.closed
	p.mu.Unlock()
	switch {
	case closed:
		return 0, p.wrap("write", net.ErrClosed)
	case len(b) > maxPacket:
		return 0, p.wrap("write", syscall.EMSGSIZE)
	}
	if to, delay := p.route(host, port); to != nil {
		to.deliver(datagram{data: append([]byte(nil), b...), from: p.addr, at: time.Now().Add(delay)}, delay)
	}
	return len(b), nil
}

// route finds the receiver, or nil when the datagram gets lost on the way.
func (p *packetConn) route(host string, port int) (*packetConn, time.Duration) {
	n := p.owner.net
	n.mu.Lock()
	defer n.mu.Unlock()
	nd := n.find(p.owner.node, host)
	if nd == nil {
		return nil, 0
	}
	l := link{p.owner.node.name, nd.name}
	if n.cut(l) || n.stalls[l] || n.loses(l) {
		return nil, 0
	}
	return lookup(nd.packets, nd == p.owner.node, host, port), n.delay(l)
}

func (p *packetConn) deliver(d datagram, delay time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed || len(p.queue) >= packetQueue {
		return
	}
	p.queue = append(p.queue, d)
	if delay > 0 {
		time.AfterFunc(delay, p.wake)
		return
	}
	p.cond.Broadcast()
}

func (p *packetConn) wake() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.cond.Broadcast()
}

func (p *packetConn) Close() error {
	p.mu.Lock()
	if p.closed {
		p.mu.Unlock()
		return p.wrap("close", net.ErrClosed)
	}
	p.closed = true
	p.readEnd.stop()
	p.cond.Broadcast()
	p.mu.Unlock()

	n := p.owner.net
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(p.owner.node.packets, p.bound)
	delete(p.owner.node.sockets, p)
	return nil
}

func (p *packetConn) LocalAddr() net.Addr              { return p.addr }
func (p *packetConn) SetDeadline(t time.Time) error    { return p.SetReadDeadline(t) }
func (p *packetConn) SetWriteDeadline(time.Time) error { return nil } // a write never waits
func (p *packetConn) SetReadDeadline(t time.Time) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return p.wrap("set", net.ErrClosed)
	}
	p.readEnd.set(t, p.wake)
	p.cond.Broadcast()
	return nil
}

func (p *packetConn) kill()          { _ = p.Close() }
func (p *packetConn) process() *Host { return p.owner }

func (p *packetConn) wrap(op string, err error) error {
	return &net.OpError{Op: op, Net: "udp", Source: p.addr, Err: err}
}
