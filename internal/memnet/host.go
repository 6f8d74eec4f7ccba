package memnet

import (
	"context"
	"fmt"
	"net"
	"strconv"
	"syscall"
	"time"
)

// Host is a process on a host of the network, or the host itself: what it opens is bound there, and what it dials comes
// from there. It implements the network interface of package listen.
type Host struct {
	net  *Network
	node *node
	sub  bool // one process of several: its Kill spares the others
	life int  // of the node when this process began
	dead bool // guarded by net.mu, as is node.life
}

// Name is the host's first name, which its addresses and the methods of Network use.
func (h *Host) Name() string { return h.node.name }

// Process gives a further process on the same host, whose Kill ends only what it opened itself.
func (h *Host) Process() *Host {
	h.net.mu.Lock()
	defer h.net.mu.Unlock()
	return &Host{net: h.net, node: h.node, life: h.node.life, sub: true}
}

// gone reports whether the process, or its whole host, was killed. It is called with the network's lock.
func (h *Host) gone() bool { return h.dead || h.life != h.node.life }

// Kill ends the host's processes at once: listeners close, connections are reset at both ends, and this value can
// neither listen nor dial again. A host returns by [Network.Host], a process by [Host.Process].
func (h *Host) Kill() {
	h.net.mu.Lock()
	if h.gone() {
		h.net.mu.Unlock()
		return
	}
	h.dead = true
	if !h.sub {
		h.node.life++
	}
	var all []socket
	for s := range h.node.sockets {
		if s.process().gone() {
			all = append(all, s)
		}
	}
	h.net.mu.Unlock()
	for _, s := range all {
		s.kill()
	}
}

// Listen opens a stream listener on a name of this host. Port 0 takes a free one.
func (h *Host) Listen(ctx context.Context, addr string) (net.Listener, error) {
	if err := ctx.Err(); err != nil {
		return nil, opError("listen", "tcp", addr, err)
	}
	h.net.mu.Lock()
	defer h.net.mu.Unlock()
	b, shown, err := bind(h, addr, h.node.streams)
	if err != nil {
		return nil, opError("listen", "tcp", addr, err)
	}
	l := newListener(h, b, addrOf("tcp", shown, b.port))
	h.node.streams[b] = l
	h.node.sockets[l] = struct{}{}
	return l, nil
}

// ListenPacket opens a datagram socket on a name of this host. Port 0 takes a free one.
func (h *Host) ListenPacket(ctx context.Context, addr string) (net.PacketConn, error) {
	if err := ctx.Err(); err != nil {
		return nil, opError("listen", "udp", addr, err)
	}
	h.net.mu.Lock()
	defer h.net.mu.Unlock()
	b, shown, err := bind(h, addr, h.node.packets)
	if err != nil {
		return nil, opError("listen", "udp", addr, err)
	}
	p := newPacketConn(h, b, addrOf("udp", shown, b.port))
	h.node.packets[b] = p
	h.node.sockets[p] = struct{}{}
	return p, nil
}

// Dial connects to a listener. It hangs while the link is cut, and takes two latencies when it is not.
func (h *Host) Dial(ctx context.Context, addr string) (net.Conn, error) {
	c, err := h.dial(ctx, addr)
	if err != nil {
		return nil, opError("dial", "tcp", addr, err)
	}
	return c, nil
}

func (h *Host) dial(ctx context.Context, addr string) (*conn, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	host, port, err := split(addr)
	if err != nil {
		return nil, err
	}
	timeout := time.NewTimer(connectTimeout)
	defer timeout.Stop()
	for synced := false; ; {
		c, wait, err := h.attempt(host, port, synced)
		if wait == nil {
			return c, err
		}
		select {
		case synced = <-wait:
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-timeout.C:
			return nil, syscall.ETIMEDOUT
		}
	}
}

// attempt connects if the link is open and the handshake's round trip is over (synced). Otherwise it says what to wait
// for: the channel gives true after the round trip, false when some link has changed.
func (h *Host) attempt(host string, port int, synced bool) (*conn, <-chan bool, error) {
	h.net.mu.Lock()
	defer h.net.mu.Unlock()
	to := h.net.find(h.node, host)
	switch {
	case h.gone():
		return nil, nil, errDead
	case to == nil:
		return nil, nil, &net.DNSError{Err: "no such host", Name: host, IsNotFound: true}
	}
	l := link{h.node.name, to.name}
	if !h.net.open(l) {
		return nil, h.net.changed, nil
	}
	if rtt := 2 * h.net.delay(l); rtt > 0 && !synced {
		over := make(chan bool, 1)
		time.AfterFunc(rtt, func() { over <- true })
		return nil, over, nil
	}
	ln := lookup(to.streams, to == h.node, host, port)
	if ln == nil {
		return nil, nil, syscall.ECONNREFUSED
	}
	c, err := h.connect(ln, addrOf("tcp", host, port))
	return c, nil, err
}

// connect makes the two ends of a connection and queues the far one. It is called with the network's lock.
func (h *Host) connect(l *listener, remote net.Addr) (*conn, error) {
	from := h.node.ip
	if isLoopback(hostOf(remote)) {
		from = hostOf(remote)
	}
	local := addrOf("tcp", from, h.node.ephemeral())
	to := l.owner
	there, here := link{h.node.name, to.node.name}, link{to.node.name, h.node.name}
	up, down := newHalf(h.net.delay(there)), newHalf(h.net.delay(here))
	near := &conn{owner: h, peer: to, in: down, out: up, local: local, remote: remote}
	far := &conn{owner: to, peer: h, in: up, out: down, local: remote, remote: local}
	if !l.offer(far) {
		return nil, syscall.ECONNREFUSED
	}
	h.node.sockets[near] = struct{}{}
	to.node.sockets[far] = struct{}{}
	return near, nil
}

func (n *Network) forget(nd *node, s socket) {
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(nd.sockets, s)
}

// find gives the node that a name means to a process on another.
func (n *Network) find(self *node, host string) *node {
	if isLoopback(host) || isAny(host) {
		return self
	}
	return n.nodes[host]
}

// lookup finds who is bound to host and port of a node; own says that the caller is on that node.
func lookup[S any](bound map[binding]*S, own bool, host string, port int) *S {
	at := outer
	if isLoopback(host) || isAny(host) {
		if !own {
			return nil
		}
		at = loopback
	}
	if s := bound[binding{at, port}]; s != nil {
		return s
	}
	return bound[binding{both, port}]
}

// bind decides which binding an address to listen on means, and how the socket then names itself.
func bind[S any](h *Host, addr string, bound map[binding]*S) (b binding, shown string, err error) {
	host, port, err := split(addr)
	if err != nil {
		return b, "", err
	}
	b, shown = binding{outer, port}, host
	switch {
	case h.gone():
		return b, "", errDead
	case isLoopback(host):
		b.at = loopback
	case isAny(host):
		b.at, shown = both, h.node.ip
	case h.net.nodes[host] != h.node:
		return b, "", syscall.EADDRNOTAVAIL
	}
	if b.port == 0 {
		for b.port = h.node.ephemeral(); taken(b, bound); b.port = h.node.ephemeral() {
		}
	}
	if taken(b, bound) {
		return b, "", syscall.EADDRINUSE
	}
	return b, shown, nil
}

// taken reports whether a binding meets another: a port on all names excludes every other use of it.
func taken[S any](b binding, bound map[binding]*S) bool {
	for other := range bound {
		if other.port == b.port && (other.at == b.at || other.at == both || b.at == both) {
			return true
		}
	}
	return false
}

func (nd *node) ephemeral() int {
	nd.next++
	if nd.next > 65535 {
		nd.next = 32768
	}
	return nd.next
}

func isLoopback(host string) bool { return host == "127.0.0.1" || host == "::1" || host == "localhost" }

func isAny(host string) bool { return host == "" || host == "0.0.0.0" || host == "::" }

func split(addr string) (string, int, error) {
	host, text, err := net.SplitHostPort(addr)
	if err != nil {
		return "", 0, err
	}
	port, err := strconv.ParseUint(text, 10, 16)
	if err != nil {
		return "", 0, fmt.Errorf("port of address %q: %w", addr, err)
	}
	return host, int(port), nil
}

func join(host string, port int) string { return net.JoinHostPort(host, strconv.Itoa(port)) }

func hostOf(a net.Addr) string {
	host, _, _ := net.SplitHostPort(a.String())
	return host
}

func opError(op, network, addr string, err error) error {
	return &net.OpError{Op: op, Net: network, Addr: address{network, addr}, Err: err}
}
