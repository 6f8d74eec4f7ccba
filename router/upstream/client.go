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
	in    *bufio.Reader
	left  int64 // bytes that may still be read
	since time.Time
}

var errHeader = errors.New("the header of the answer is too large")

// Read implements io.Reader within the limit.
func (k *conn) Read(p []byte) (int, error) {
	if k.left <= 0 {
		return 0, errHeader
	}
	n, err := k.net.Read(p[:min(int64(len(p)), k.left)])
	k.left -= int64(n)
	return n, err
}

// simple says whether a request is wholly in memory and needs nothing special.
func simple(r *http.Request) bool {
	return r.GetBody != nil && r.ContentLength >= 0 && r.ContentLength <= maxBody && len(r.Trailer) == 0 && len(r.Header["Expect"]) == 0 && r.URL.Scheme == "http"
}

// RoundTrip implements [http.RoundTripper]. The answer's body must be closed; its connection is used again once all of it
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
	resp.Body = &answer{ReadCloser: resp.Body, client: c, conn: k, host: r.URL.Host, stop: stop, keep: !resp.Close}
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
	k := &conn{net: n}
	k.in = bufio.NewReaderSize(k, 4<<10)
	return k, nil
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

// answer reads the header of the answer, past those that only inform.
func (k *conn) answer(r *http.Request) (*http.Response, error) {
	for k.left = maxHeader; ; {
		resp, err := http.ReadResponse(k.in, r)
		if err != nil {
			if errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF) {
				err = io.ErrUnexpectedEOF
			}
			return nil, err
		}
		if resp.StatusCode >= 200 {
			k.left = math.MaxInt64
			return resp, nil
		}
		if resp.StatusCode == http.StatusSwitchingProtocols {
			return nil, errors.New("the engine changes the protocol, which nobody asked for")
		}
	}
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

// answer is the body of an answer. It gives its connection back at its end.
type answer struct {
	io.ReadCloser
	client *Client
	conn   *conn
	host   string
	stop   func() bool
	keep   bool
	done   bool
}

func (a *answer) Read(p []byte) (int, error) {
	n, err := a.ReadCloser.Read(p)
	if err != nil && !a.done {
		a.end(err == io.EOF)
	}
	return n, err
}

// Close implements io.Closer. What was not read is not waited for.
func (a *answer) Close() error {
	if !a.done {
		a.end(false)
	}
	return nil
}

func (a *answer) end(whole bool) {
	a.done = true
	if a.stop() && whole && a.keep && a.conn.in.Buffered() == 0 {
		a.client.push(a.host, a.conn)
		return
	}
	_ = a.conn.net.Close()
}
