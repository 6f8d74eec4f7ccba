package consensus

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/raft"

	"berth/fleet"
	"berth/internal/listen"
)

// helloWait bounds the handshake: who does not say hello must not hold a connection.
const helloWait = 5 * time.Second

// dialWait is shorter than raft's timeout for a whole call, so that a link that heals is noticed soon.
const dialWait = 3 * time.Second

// port is the raft port: raft's stream layer behind the handshake, and the calls of call.go beside it. It keeps every
// connection, so that closing it silences this peer at once, whatever its other parts are stuck in.
type port struct {
	me      *identity
	network listen.Network
	ln      net.Listener
	addr    address
	log     *slog.Logger
	serve   func(ctx context.Context, conn net.Conn, from hello) // a kindCall connection, until it ends
	trust   func(cluster string) error                           // told before raft speaks in a cluster only promised so far

	ctx      context.Context // ends with silence
	cancel   context.CancelFunc
	ready    chan net.Conn
	released chan struct{} // closed by Close
	wg       sync.WaitGroup

	mu    sync.Mutex
	conns map[*portConn]struct{} // nil once silenced
	gone  bool                   // Close has run
	told  map[string]time.Time   // refusals already logged
}

// address is the advertised one, which raft writes into the configuration.
type address string

func (address) Network() string  { return "tcp" }
func (a address) String() string { return string(a) }

func openPort(ctx context.Context, c Config, me *identity) (*port, error) {
	ln, err := c.Policy.Listen(ctx, c.Network, listen.Spec{Addr: c.Bind, Flag: "--raft-bind"})
	if err != nil {
		return nil, err
	}
	p := &port{
		me: me, network: c.Network, ln: ln, addr: address(c.Advertise), log: c.Log,
		ready: make(chan net.Conn), released: make(chan struct{}), conns: map[*portConn]struct{}{}, told: map[string]time.Time{},
	}
	if p.addr == "" {
		p.addr = address(ln.Addr().String())
	}
	p.ctx, p.cancel = context.WithCancel(context.Background())
	return p, nil
}

// start begins to accept; serve and trust are set by then.
func (p *port) start() { p.wg.Go(p.acceptLoop) }

func (p *port) acceptLoop() {
	for {
		conn, err := p.ln.Accept()
		switch {
		case p.ctx.Err() != nil:
			if err == nil {
				_ = conn.Close()
			}
			return
		case err != nil:
			p.log.Warn("raft port: accept", "error", err)
			pause(p.ctx, 100*time.Millisecond)
			continue
		}
		if c := p.keep(conn); c != nil {
			p.wg.Go(func() { p.handle(c) })
		}
	}
}

// handle does the handshake and gives the connection to whom it is for.
func (p *port) handle(c *portConn) {
	_ = c.SetDeadline(time.Now().Add(helloWait))
	kind, h, err := receive(c)
	if err != nil {
		p.complain(c.RemoteAddr().String(), "raft port: refused a connection", "from", c.RemoteAddr(), "error", err)
		_ = c.Close()
		return
	}
	if refused := p.answer(c, kind, h); refused != nil {
		if h.Instance != p.me.instance {
			p.complain(h.From+h.Cluster, "raft port: refused a peer", "peer", h.From, "from", c.RemoteAddr(), "error", refused)
		}
		_ = c.Close()
		return
	}
	_ = c.SetDeadline(time.Time{})
	if kind == kindCall {
		p.serve(p.ctx, c, h)
		_ = c.Close()
		return
	}
	select {
	case p.ready <- c:
	case <-p.ctx.Done():
		_ = c.Close()
	}
}

func (p *port) answer(c *portConn, kind byte, h hello) error {
	me := p.me.get()
	refused := admit(me, kind, h)
	if refused == nil && kind == kindRaft && me.Cluster == "" {
		if err := p.trust(h.Cluster); err != nil {
			refused = fleet.AsError(err)
		}
	}
	err := writeFrame(c, welcome{ID: me.ID, Cluster: me.Cluster, Refused: refused})
	if refused != nil {
		return refused
	}
	return err
}

// complain logs one kind of refusal once a minute: who is refused tries again many times a second.
func (p *port) complain(key, msg string, args ...any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if last, ok := p.told[key]; ok && time.Since(last) < time.Minute {
		return
	}
	if len(p.told) > 1000 {
		clear(p.told)
	}
	p.told[key] = time.Now()
	p.log.Warn(msg, args...)
}

// Accept implements net.Listener for raft's transport. On a silenced port it waits for Close.
func (p *port) Accept() (net.Conn, error) {
	select {
	case c := <-p.ready:
		return c, nil
	case <-p.released:
		return nil, net.ErrClosed
	}
}

// Addr implements net.Listener.
func (p *port) Addr() net.Addr { return p.addr }

// silence shuts the port and cuts every connection, in and out: from here on this peer says nothing to anyone.
func (p *port) silence() error {
	p.cancel()
	p.mu.Lock()
	conns := p.conns
	p.conns = nil
	p.mu.Unlock()
	if conns == nil {
		return nil
	}
	err := p.ln.Close()
	for c := range conns {
		_ = c.Conn.Close()
	}
	if errors.Is(err, net.ErrClosed) { // a killed host has closed it already
		return nil
	}
	return err
}

// Close implements net.Listener; raft's transport calls it at its end.
func (p *port) Close() error {
	err := p.silence()
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.gone {
		p.gone = true
		close(p.released)
	}
	return err
}

// target is what raft dials: the id goes with the address, because the handshake asks for it.
func target(id raft.ServerID, addr raft.ServerAddress) raft.ServerAddress {
	return raft.ServerAddress(string(id) + "@" + string(addr))
}

// Dial implements raft.StreamLayer.
func (p *port) Dial(to raft.ServerAddress, timeout time.Duration) (net.Conn, error) {
	id, addr, ok := strings.Cut(string(to), "@")
	if !ok {
		return nil, fmt.Errorf("raft dials %q without a peer's id", to)
	}
	ctx, cancel := context.WithTimeout(p.ctx, min(timeout, dialWait))
	defer cancel()
	c, _, err := p.dial(ctx, kindRaft, Candidate{ID: id, Address: addr})
	if err != nil {
		return nil, err
	}
	return c, nil
}

// dial connects and does the handshake.
func (p *port) dial(ctx context.Context, kind byte, to Candidate) (net.Conn, welcome, error) {
	conn, err := p.network.Dial(ctx, to.Address)
	if err != nil {
		return nil, welcome{}, err
	}
	c := p.keep(conn)
	if c == nil {
		return nil, welcome{}, net.ErrClosed
	}
	if kind == kindRaft {
		p.mu.Lock()
		c.to = to.ID
		p.mu.Unlock()
	}
	defer context.AfterFunc(ctx, func() { _ = c.SetDeadline(time.Unix(1, 0)) })()
	me := p.me.get()
	w, err := greet(c, kind, hello{Cluster: me.Cluster, From: me.ID, To: to.ID, Instance: p.me.instance})
	if err != nil {
		_ = c.Close()
		if fleet.CodeOf(err) == fleet.WrongCluster {
			p.complain(to.ID+to.Address, "raft port: refused by a peer", "peer", to.ID, "at", to.Address, "error", err)
		}
		return nil, w, fmt.Errorf("raft port of peer %s at %s: %w", to.ID, to.Address, err)
	}
	return c, w, nil
}

// keep takes a connection into the set that Close cuts, or closes it when that has happened.
func (p *port) keep(conn net.Conn) *portConn {
	c := &portConn{Conn: conn, port: p}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.conns == nil {
		_ = conn.Close()
		return nil
	}
	p.conns[c] = struct{}{}
	return c
}

// cut closes every connection on which raft speaks to a peer. It will dial anew.
func (p *port) cut(id string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.conns {
		if c.to == id {
			_ = c.Conn.Close() // its user closes it again, and takes it out
		}
	}
}

type portConn struct {
	net.Conn
	port *port
	to   string // whom raft calls on it; empty for others
}

func (c *portConn) Close() error {
	c.port.mu.Lock()
	delete(c.port.conns, c)
	c.port.mu.Unlock()
	return c.Conn.Close()
}

var _ raft.StreamLayer = (*port)(nil)

// pause waits, or until the context ends.
func pause(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
	case <-t.C:
	}
}
