package memnet

import (
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"syscall"
	"time"
)

// window is how much one direction of a connection holds, in flight and unread together. A writer waits when it is full.
const window = 64 << 10

// conn is one end of a connection.
type conn struct {
	owner, peer   *Host
	in, out       *half
	local, remote net.Addr
}

func (c *conn) Read(p []byte) (int, error) {
	n, err := c.in.read(p)
	return n, c.wrap("read", err)
}

func (c *conn) Write(p []byte) (int, error) {
	n, err := c.out.write(p)
	return n, c.wrap("write", err)
}

// Close ends both directions: the other end reads what was sent before, then EOF, and can no longer write.
func (c *conn) Close() error {
	first := c.in.closeReader()
	c.out.closeWriter()
	c.owner.net.forget(c.owner.node, c)
	if !first {
		return c.wrap("close", net.ErrClosed)
	}
	return nil
}

func (c *conn) LocalAddr() net.Addr  { return c.local }
func (c *conn) RemoteAddr() net.Addr { return c.remote }

func (c *conn) SetDeadline(t time.Time) error {
	return errors.Join(c.SetReadDeadline(t), c.SetWriteDeadline(t))
}
func (c *conn) SetReadDeadline(t time.Time) error {
	return c.wrap("set", c.in.setDeadline(&c.in.readEnd, t))
}
func (c *conn) SetWriteDeadline(t time.Time) error {
	return c.wrap("set", c.out.setDeadline(&c.out.writeEnd, t))
}

// reset ends the connection at both ends, losing what is in flight.
func (c *conn) reset(err error) {
	c.in.reset(err)
	c.out.reset(err)
}

func (c *conn) kill() {
	c.reset(syscall.ECONNRESET)
	_ = c.Close()
}

func (c *conn) process() *Host { return c.owner }

// wrap gives errors the shape of package net's, which callers ask for Timeout and the address.
func (c *conn) wrap(op string, err error) error {
	if err == nil || err == io.EOF {
		return err
	}
	return &net.OpError{Op: op, Net: "tcp", Source: c.local, Addr: c.remote, Err: err}
}

// half is one direction of a connection: a queue that the writer's end fills and the reader's end drains.
type half struct {
	delay time.Duration

	mu       sync.Mutex
	cond     *sync.Cond
	queue    []segment
	size     int
	eof      time.Time // when the writer's Close arrives; zero while it is open
	noReader bool
	noWriter bool
	stalled  bool
	broken   error
	readEnd  deadline
	writeEnd deadline
}

// segment is what one write sent, and when it arrives.
type segment struct {
	data []byte
	at   time.Time
}

func newHalf(delay time.Duration) *half {
	h := &half{delay: delay}
	h.cond = sync.NewCond(&h.mu)
	return h
}

func (h *half) read(p []byte) (int, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for {
		switch {
		case h.noReader:
			return 0, net.ErrClosed
		case h.broken != nil:
			return 0, h.broken
		case h.readEnd.passed():
			return 0, os.ErrDeadlineExceeded
		case len(p) == 0:
			return 0, nil
		case h.arrived():
			return h.take(p), nil
		case h.ended():
			return 0, io.EOF
		}
		h.cond.Wait()
	}
}

func (h *half) arrived() bool {
	return !h.stalled && len(h.queue) > 0 && !h.queue[0].at.After(time.Now())
}

func (h *half) ended() bool {
	return !h.stalled && len(h.queue) == 0 && !h.eof.IsZero() && !h.eof.After(time.Now())
}

func (h *half) take(p []byte) int {
	total := 0
	for total < len(p) && h.arrived() {
		n := copy(p[total:], h.queue[0].data)
		total += n
		if h.queue[0].data = h.queue[0].data[n:]; len(h.queue[0].data) == 0 {
			h.queue = h.queue[1:]
		}
	}
	h.size -= total
	h.cond.Broadcast()
	return total
}

func (h *half) write(p []byte) (int, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	total := 0
	for {
		switch {
		case h.noWriter:
			return total, net.ErrClosed
		case h.broken != nil:
			return total, h.broken
		case h.noReader:
			return total, syscall.EPIPE
		case h.writeEnd.passed():
			return total, os.ErrDeadlineExceeded
		case total == len(p):
			return total, nil
		case h.size < window:
			n := min(len(p)-total, window-h.size)
			h.send(p[total : total+n])
			if total += n; total == len(p) {
				return total, nil
			}
			continue
		}
		h.cond.Wait()
	}
}

func (h *half) send(p []byte) {
	h.queue = append(h.queue, segment{data: append([]byte(nil), p...), at: time.Now().Add(h.delay)})
	h.size += len(p)
	h.announce()
}

// announce wakes the reader when what was just sent arrives.
func (h *half) announce() {
	if h.delay > 0 {
		time.AfterFunc(h.delay, h.wake)
		return
	}
	h.cond.Broadcast()
}

func (h *half) wake() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.cond.Broadcast()
}

func (h *half) closeWriter() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.noWriter {
		return
	}
	h.noWriter = true
	h.eof = time.Now().Add(h.delay)
	h.writeEnd.stop()
	h.cond.Broadcast() // a write of our own that waits
	h.announce()
}

// closeReader reports whether this is the first call.
func (h *half) closeReader() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.noReader {
		return false
	}
	h.noReader = true
	h.queue, h.size = nil, 0
	h.readEnd.stop()
	h.cond.Broadcast()
	return true
}

func (h *half) reset(err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.broken == nil {
		h.broken = err
	}
	h.queue, h.size = nil, 0
	h.cond.Broadcast()
}

func (h *half) stall(on bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.stalled = on
	h.cond.Broadcast()
}

func (h *half) setDeadline(d *deadline, t time.Time) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	closed := d == &h.readEnd && h.noReader || d == &h.writeEnd && h.noWriter
	if closed {
		return net.ErrClosed
	}
	d.set(t, h.wake)
	h.cond.Broadcast()
	return nil
}

// deadline is a time after which waiting fails, and the timer that wakes those who wait. Its user holds a lock.
type deadline struct {
	at    time.Time
	timer *time.Timer
}

func (d *deadline) set(t time.Time, wake func()) {
	d.stop()
	d.at = t
	if left := time.Until(t); !t.IsZero() && left > 0 {
		d.timer = time.AfterFunc(left, wake)
	}
}

func (d *deadline) stop() {
	if d.timer != nil {
		d.timer.Stop()
		d.timer = nil
	}
}

func (d *deadline) passed() bool { return !d.at.IsZero() && !d.at.After(time.Now()) }
