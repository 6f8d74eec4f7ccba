package upstream

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"math"
	"net"
	"net/http"
	"strconv"
	"sync"
	"time"

	"berth/internal/plain"
)

// Limits of connections.
const (
	maxBody     = 64 << 10 // a larger request goes by Rest: an answer could come before it is written
	maxHeader   = 64 << 10
	maxIdle     = 64 // a host
	idleTime    = 50 * time.Second
	dialTimeout = 5 * time.Second
	lastWord    = time.Second // for an answer that may have been sent before the connection was closed on a request
)

// Client sends requests to engines. It implements [http.RoundTripper] and is safe for concurrent use. Its owner calls
// CloseIdle at the end.
type Client struct {
	Dial func(ctx context.Context, addr string) (net.Conn, error)
	Rest http.RoundTripper // for what is not wholly in memory

	mu   sync.Mutex
	idle map[string][]*conn // newest last
}

// CloseIdle closes the connections that are not in use.
func (c *Client) CloseIdle() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, list := range c.idle {
		for _, k := range list {
			_ = k.net.Close()
		}
	}
	c.idle = nil
}

// conn is one connection. It is used by one goroutine at a time.
type conn struct {
	net   net.Conn
	in    *plain.Reader
	left  int64 // bytes of a header that may still be read
	since time.Time
}

var errHeader = errors.New("the header of the answer is too large")

// Read implements io.Reader within the limit.
func (k *conn) Read(p []byte) (int, error) {
	if k.left <= 0 {
		return 0, errHeader
	}
	n, err := k.in.Read(p[:min(int64(len(p)), k.left)])
	k.left -= int64(n)
	return n, err
}

// simple says whether a request is wholly in memory and needs nothing special.
func simple(r *http.Request) bool {
	return r.GetBody != nil && r.ContentLength >= 0 && r.ContentLength <= maxBody && len(r.Trailer) == 0 && len(r.Header["Expect"]) == 0 && r.URL.Scheme == "http"
}

// RoundTrip implements [http.RoundTripper], but for the answer's Request, which may be nil. The answer's body must be closed; its connection is used again once all of it
// has been read. The request's context ends it in all its stages.
func (c *Client) RoundTrip(r *http.Request) (*http.Response, error) {
	if !simple(r) {
		return c.Rest.RoundTrip(r)
	}
	ctx := r.Context()
	k, err := c.take(ctx, r.URL.Host)
	if err != nil {
		return nil, err
	}
	stop := context.AfterFunc(ctx, func() { _ = k.net.Close() })
	resp, err := k.exchange(r)
	if err != nil {
		stop()
		_ = k.net.Close()
		if ctx.Err() != nil {
			err = ctx.Err()
		}
		return nil, err
	}
	hold := hold{client: c, conn: k, host: r.URL.Host, stop: stop, keep: !resp.Close}
	if b, ok := resp.Body.(*reply); ok {
		resp.Body = &pieces{reply: b, hold: hold}
	} else {
		resp.Body = &answer{ReadCloser: resp.Body, hold: hold}
	}
	return resp, nil
}

// take gives a connection that lives, or a new one.
func (c *Client) take(ctx context.Context, host string) (*conn, error) {
	for {
		k := c.pop(host)
		if k == nil {
			break
		}
		if time.Since(k.since) < idleTime && alive(k.net) {
			return k, nil
		}
		_ = k.net.Close()
	}
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	n, err := c.Dial(ctx, host)
	if err != nil {
		return nil, err
	}
	return &conn{net: n, in: plain.NewReader(n)}, nil
}

func (c *Client) pop(host string) *conn {
	c.mu.Lock()
	defer c.mu.Unlock()
	list := c.idle[host]
	if len(list) == 0 {
		return nil
	}
	k := list[len(list)-1]
	c.idle[host] = list[:len(list)-1]
	return k
}

// push keeps a connection for later. The oldest makes room, and those that are too old go.
func (c *Client) push(host string, k *conn) {
	k.since = time.Now()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.idle == nil {
		c.idle = make(map[string][]*conn)
	}
	list := append(c.idle[host], k)
	for len(list) > maxIdle || k.since.Sub(list[0].since) > idleTime {
		_ = list[0].net.Close()
		list = list[1:]
	}
	c.idle[host] = list
}

var buffers = sync.Pool{New: func() any { return new(bytes.Buffer) }}

// exchange writes the request in one piece and reads the header of the answer.
func (k *conn) exchange(r *http.Request) (*http.Response, error) {
	buf := buffers.Get().(*bytes.Buffer)
	defer buffers.Put(buf)
	buf.Reset()
	if err := write(buf, r); err != nil {
		return nil, err
	}
	if _, err := k.net.Write(buf.Bytes()); err != nil {
		_ = k.net.SetReadDeadline(time.Now().Add(lastWord))
		resp, readErr := k.answer(r)
		if readErr != nil {
			return nil, err
		}
		resp.Close = true
		return resp, nil
	}
	return k.answer(r)
}

// answer reads the header of the answer. One that is not plain is read by net/http, past those that only inform.
func (k *conn) answer(r *http.Request) (*http.Response, error) {
	if err := k.in.Fill(); err != nil {
		if err == io.EOF {
			err = io.ErrUnexpectedEOF
		}
		return nil, err
	}
	if resp, body := plainAnswer(k.in); resp != nil {
		resp.Body = body
		return resp, nil
	}
	k.left = maxHeader
	for in := bufio.NewReaderSize(k, 4<<10); ; {
		resp, err := http.ReadResponse(in, r)
		if err != nil {
			if errors.Is(err, io.EOF) {
				err = io.ErrUnexpectedEOF
			}
			return nil, err
		}
		if resp.StatusCode >= 200 {
			k.left = math.MaxInt64
			resp.Body = &buffered{resp.Body, in}
			return resp, nil
		}
		if resp.StatusCode == http.StatusSwitchingProtocols {
			return nil, errors.New("the engine changes the protocol, which nobody asked for")
		}
	}
}

// buffered is a body that is read by way of a buffer.
type buffered struct {
	io.ReadCloser
	in *bufio.Reader
}

// write writes a request. Its header's names and values have passed net/http's server or are the router's own, so they
// hold no line breaks; what frames the message is written here alone.
func write(b *bytes.Buffer, r *http.Request) error {
	b.WriteString(r.Method)
	b.WriteByte(' ')
	b.WriteString(r.URL.RequestURI())
	b.WriteString(" HTTP/1.1\r\nHost: ")
	b.WriteString(r.URL.Host)
	for name, values := range r.Header {
		switch name {
		case "Host", "Content-Length", "Transfer-Encoding", "Trailer":
			continue
		}
		for _, v := range values {
			b.WriteString("\r\n")
			b.WriteString(name)
			b.WriteString(": ")
			b.WriteString(v)
		}
	}
	b.WriteString("\r\nContent-Length: ")
	b.Write(strconv.AppendInt(b.AvailableBuffer(), r.ContentLength, 10))
	b.WriteString("\r\n\r\n")
	before := b.Len()
	body, err := r.GetBody()
	if err != nil {
		return err
	}
	defer body.Close()
	if _, err := b.ReadFrom(body); err != nil {
		return err
	}
	if int64(b.Len()-before) != r.ContentLength {
		return errors.New("the body's length is not the one that was announced")
	}
	return nil
}

// hold is what the body of an answer has of its connection, which it gives back at its end.
type hold struct {
	client *Client
	conn   *conn
	host   string
	stop   func() bool
	keep   bool
	done   bool
}

// end ends the use of the connection. clean says that all of the answer was read and nothing more has come.
func (h *hold) end(clean bool) {
	if h.done {
		return
	}
	h.done = true
	if h.stop() && clean && h.keep {
		h.client.push(h.host, h.conn)
		return
	}
	_ = h.conn.net.Close()
	h.conn.in.Take(h.conn.in.Buffered())
}

// answer is a body that net/http reads.
type answer struct {
	io.ReadCloser
	hold
}

func (a *answer) Read(p []byte) (int, error) {
	n, err := a.ReadCloser.Read(p)
	if err != nil {
		b, ok := a.ReadCloser.(*buffered)
		a.end(err == io.EOF && (!ok || b.in.Buffered() == 0) && a.conn.in.Buffered() == 0)
	}
	return n, err
}

// Close implements io.Closer. What was not read is not waited for.
func (a *answer) Close() error {
	a.end(false)
	return nil
}

// pieces is a body that this package reads.
type pieces struct {
	*reply
	hold
}

// Next gives the body piece by piece, each as long as it has come, in a buffer that is this side's until the next call. So
// who waits for a piece needs no buffer.
func (p *pieces) Next() ([]byte, error) {
	b, err := p.reply.Next()
	if err != nil {
		p.end(err == io.EOF && p.conn.in.Buffered() == 0)
	}
	return b, err
}

// Read implements io.Reader.
func (p *pieces) Read(b []byte) (int, error) {
	n, err := p.reply.Read(b)
	if err != nil {
		p.end(err == io.EOF && p.conn.in.Buffered() == 0)
	}
	return n, err
}

// Close implements io.Closer. What was not read is not waited for.
func (p *pieces) Close() error {
	p.end(false)
	return nil
}
