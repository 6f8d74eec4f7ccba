package gossip

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/hashicorp/memberlist"

	"berth/internal/listen"
)

// transport carries memberlist over a [listen.Network]. Its Shutdown ends everything that passes through it, so that nobody in
// memberlist waits for a network any more, and joins its own two loops.
type transport struct {
	network listen.Network
	ln      net.Listener
	pc      net.PacketConn
	ip      net.IP // advertised
	port    int

	ctx     context.Context
	cancel  context.CancelFunc
	loops   sync.WaitGroup
	packets chan *memberlist.Packet
	streams chan net.Conn

	mu       sync.Mutex
	closed   bool
	conns    map[*conn]struct{}
	attempts map[string]*attempt // joins in progress, by address
}

var _ memberlist.NodeAwareTransport = (*transport)(nil)

// maxDatagram is the largest payload of UDP over IPv4.
const maxDatagram = 65507

func newTransport(ctx context.Context, cfg Config) (*transport, error) {
	ln, pc, err := open(ctx, cfg)
	if err != nil {
		return nil, err
	}
	t := &transport{
		network: cfg.Network, ln: ln, pc: pc,
		packets: make(chan *memberlist.Packet), streams: make(chan net.Conn),
		conns: make(map[*conn]struct{}), attempts: make(map[string]*attempt),
	}
	if t.ip, t.port, err = advertised(ctx, cfg, ln.Addr()); err != nil {
		_, _ = ln.Close(), pc.Close()
		return nil, err
	}
	t.ctx, t.cancel = context.WithCancel(context.Background()) // ended by Shutdown
	t.loops.Go(t.accept)
	t.loops.Go(t.receive)
	return t, nil
}

// open opens the two sockets on one port. With port 0 the port that is free for streams may be taken for datagrams; then another one is
// tried.
func open(ctx context.Context, cfg Config) (net.Listener, net.PacketConn, error) {
	policy := listen.Policy{InsecureNoTLS: cfg.Policy.InsecureNoTLS} // memberlist encrypts by itself; TLS is not for it
	spec := listen.Spec{Addr: cfg.Bind, Flag: "--gossip-bind", Sealed: len(cfg.Keys) > 0}
	host, port, _ := net.SplitHostPort(cfg.Bind)
	for try := 1; ; try++ {
		ln, err := policy.Listen(ctx, cfg.Network, spec)
		if err != nil {
			return nil, nil, fmt.Errorf("gossip: %w", err)
		}
		_, bound, _ := net.SplitHostPort(ln.Addr().String())
		datagrams := spec
		datagrams.Addr = net.JoinHostPort(host, bound)
		pc, err := policy.ListenPacket(ctx, cfg.Network, datagrams)
		if err == nil {
			return ln, pc, nil
		}
		_ = ln.Close()
		if port != "0" || try == 10 {
			return nil, nil, fmt.Errorf("gossip: datagrams: %w", err)
		}
	}
}

func (t *transport) accept() {
	for {
		c, err := t.ln.Accept()
		if t.ctx.Err() != nil {
			if err == nil {
				_ = c.Close()
			}
			return
		}
		if err != nil { // out of descriptors, say: the others go on probing, so this must not end
			t.breathe()
			continue
		}
		tracked, ok := t.track(c)
		if !ok {
			return
		}
		select {
		case t.streams <- tracked:
		case <-t.ctx.Done():
			return // Shutdown closes it with all others
		}
	}
}

func (t *transport) receive() {
	buf := make([]byte, maxDatagram)
	for {
		n, from, err := t.pc.ReadFrom(buf)
		if t.ctx.Err() != nil {
			return
		}
		if err != nil {
			t.breathe()
			continue
		}
		if n == 0 {
			continue
		}
		p := &memberlist.Packet{Buf: slices.Clone(buf[:n]), From: from, Timestamp: time.Now()}
		select {
		case t.packets <- p:
		case <-t.ctx.Done():
			return
		}
	}
}

// breathe waits a little after an error that may last.
func (t *transport) breathe() {
	wait := time.NewTimer(100 * time.Millisecond)
	defer wait.Stop()
	select {
	case <-wait.C:
	case <-t.ctx.Done():
	}
}

// FinalAdvertiseAddr implements memberlist.Transport.
func (t *transport) FinalAdvertiseAddr(string, int) (net.IP, int, error) { return t.ip, t.port, nil }

// PacketCh implements memberlist.Transport.
func (t *transport) PacketCh() <-chan *memberlist.Packet { return t.packets }

// StreamCh implements memberlist.Transport.
func (t *transport) StreamCh() <-chan net.Conn { return t.streams }

// WriteTo implements memberlist.Transport.
func (t *transport) WriteTo(b []byte, addr string) (time.Time, error) {
	to, err := netip.ParseAddrPort(addr)
	if err != nil {
		return time.Time{}, err
	}
	_, err = t.pc.WriteTo(b, net.UDPAddrFromAddrPort(to))
	return time.Now(), err
}

// WriteToAddress implements memberlist.NodeAwareTransport.
func (t *transport) WriteToAddress(b []byte, a memberlist.Address) (time.Time, error) {
	return t.WriteTo(b, a.Addr)
}

// DialTimeout implements memberlist.Transport.
func (t *transport) DialTimeout(addr string, timeout time.Duration) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(t.ctx, timeout)
	defer cancel()
	c, err := t.network.Dial(ctx, addr)
	if err != nil {
		return nil, err
	}
	tracked, ok := t.track(c)
	if !ok {
		return nil, net.ErrClosed
	}
	return tracked, nil
}

// DialAddressTimeout implements memberlist.NodeAwareTransport. Only a join dials an address without knowing the name of who is there.
func (t *transport) DialAddressTimeout(a memberlist.Address, timeout time.Duration) (net.Conn, error) {
	c, err := t.DialTimeout(a.Addr, timeout)
	if a.Name == "" {
		t.mu.Lock()
		defer t.mu.Unlock()
		if at := t.attempts[a.Addr]; at != nil {
			at.dial = err
			if err == nil {
				at.conn = c.(*conn)
			}
		}
	}
	return c, err
}

// Shutdown implements memberlist.Transport.
func (t *transport) Shutdown() error {
	t.cancel()
	_, _ = t.ln.Close(), t.pc.Close()
	t.mu.Lock()
	t.closed = true
	open := make([]*conn, 0, len(t.conns))
	for c := range t.conns {
		open = append(open, c)
	}
	t.mu.Unlock()
	for _, c := range open {
		_ = c.Close()
	}
	t.loops.Wait()
	return nil
}
