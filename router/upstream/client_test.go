package upstream

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"berth/internal/memnet"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const engineAt = "10.0.0.1:8000"

// rig is a client and an engine that serves each connection by a function.
type rig struct {
	*testing.T
	*Client
	dials atomic.Int64
}

func newRig(t *testing.T, serve func(net.Conn, *bufio.Reader)) *rig {
	network := memnet.New(1)
	ln, err := network.Host("10.0.0.1").Listen(t.Context(), engineAt)
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				serve(c, bufio.NewReader(c))
			}()
		}
	}()
	r := &rig{T: t}
	r.Client = &Client{Dial: func(ctx context.Context, addr string) (net.Conn, error) {
		r.dials.Add(1)
		return network.Host("10.0.0.2").Dial(ctx, addr)
	}, Rest: refuse{}}
	t.Cleanup(func() {
		r.CloseIdle()
		ln.Close()
		synctest.Wait()
	})
	return r
}

var errRest = errors.New("goes by the rest")

type refuse struct{}

func (refuse) RoundTrip(*http.Request) (*http.Response, error) { return nil, errRest }

// ask sends a request as the router does.
func (r *rig) ask(ctx context.Context, body string, change func(*http.Request)) (*http.Response, error) {
	r.Helper()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+engineAt+"/v1/x%2Fy?q=1", strings.NewReader(body))
	if err != nil {
		r.Fatal(err)
	}
	req.Header = http.Header{"X-A": {"1", "2"}, "User-Agent": nil, "Content-Length": {"7"}, "Transfer-Encoding": {"chunked"}}
	if change != nil {
		change(req)
	}
	return r.RoundTrip(req)
}

func (r *rig) whole(body string) (string, error) {
	r.Helper()
	resp, err := r.ask(r.Context(), body, nil)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	return string(text), err
}

// echo answers each request with what it read of it.
func echo(c net.Conn, in *bufio.Reader) {
	for {
		req, err := http.ReadRequest(in)
		if err != nil {
			return
		}
		body, _ := io.ReadAll(req.Body)
		text := fmt.Sprint(req.Method, " ", req.RequestURI, " ", req.Host, " ", req.Header, " ", req.TransferEncoding, " ", string(body))
		fmt.Fprintf(c, "HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", len(text), text)
	}
}

func TestRequestsAreWhatWasSent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, echo)
		for _, body := range []string{"", "one", strings.Repeat("x", maxBody)} {
			text, err := r.whole(body)
			if want := "POST /v1/x%2Fy?q=1 " + engineAt + " map[Content-Length:[" + fmt.Sprint(len(body)) + "] X-A:[1 2]] [] " + body; err != nil || text != want {
				t.Fatalf("%v\n%.200s, want\n%.200s", err, text, want)
			}
		}
		if n := r.dials.Load(); n != 1 {
			t.Errorf("%d connections for three requests in turn", n)
		}
		for name, change := range map[string]func(*http.Request){
			"large":   func(q *http.Request) { q.ContentLength = maxBody + 1 },
			"unknown": func(q *http.Request) { q.ContentLength = -1 },
			"coming":  func(q *http.Request) { q.GetBody = nil },
			"expect":  func(q *http.Request) { q.Header.Set("Expect", "100-continue") },
			"trailer": func(q *http.Request) { q.Trailer = http.Header{"X": nil} },
		} {
			if _, err := r.ask(t.Context(), "x", change); !errors.Is(err, errRest) {
				t.Errorf("%s: %v", name, err)
			}
		}
	})
}

// TestAClosedConnectionIsNotUsed: neither one that the engine closed while it was idle, nor one with bytes that nobody
// asked for, which would be taken for the next answer.
func TestAClosedConnectionIsNotUsed(t *testing.T) {
	for name, after := range map[string]string{"closed": "", "with more bytes": "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil"} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, func(c net.Conn, in *bufio.Reader) {
					req, err := http.ReadRequest(in)
					if err != nil {
						return
					}
					_, _ = io.Copy(io.Discard, req.Body)
					fmt.Fprint(c, "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\ngood")
					time.Sleep(time.Second)
					_, _ = io.WriteString(c, after)
				})
				for range 3 {
					if text, err := r.whole("x"); text != "good" || err != nil {
						t.Errorf("%q, %v", text, err)
					}
					time.Sleep(2 * time.Second)
				}
				if n := r.dials.Load(); n != 3 {
					t.Errorf("%d connections", n)
				}
			})
		})
	}
}

// TestTheContextEndsAll: while the engine thinks, and in the middle of its answer; it sees the end of the connection.
func TestTheContextEndsAll(t *testing.T) {
	for _, begin := range []string{"", "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf"} {
		synctest.Test(t, func(t *testing.T) {
			gone := make(chan time.Time, 1)
			r := newRig(t, func(c net.Conn, in *bufio.Reader) {
				req, err := http.ReadRequest(in)
				if err != nil {
					return
				}
				_, _ = io.Copy(io.Discard, req.Body)
				_, _ = io.WriteString(c, begin)
				_, _ = in.ReadByte()
				gone <- time.Now()
			})
			start := time.Now()
			ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
			defer cancel()
			resp, err := r.ask(ctx, "x", nil)
			if err == nil {
				_, err = io.ReadAll(resp.Body)
				resp.Body.Close()
			}
			if at := <-gone; err == nil || at.Sub(start) != 3*time.Second {
				t.Errorf("%v; the engine saw it after %v", err, at.Sub(start))
			}
		})
	}
}

// TestBadAnswers end in an error, and their connections are not used again.
func TestBadAnswers(t *testing.T) {
	for name, text := range map[string]string{
		"none":        "",
		"half":        "HTTP/1.1 200 OK\r\nContent-Le",
		"no http":     "SSH-2.0-OpenSSH\r\n\r\n",
		"endless":     "HTTP/1.1 200 OK\r\nX: " + string(bytes.Repeat([]byte("x"), 2*maxHeader)) + "\r\n\r\n",
		"switching":   "HTTP/1.1 101 Switching Protocols\r\n\r\n",
		"two lengths": "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nxx",
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, func(c net.Conn, in *bufio.Reader) {
					if req, err := http.ReadRequest(in); err == nil {
						_, _ = io.Copy(io.Discard, req.Body)
						_, _ = io.WriteString(c, text)
					}
				})
				for range 2 {
					if text, err := r.whole("x"); err == nil {
						t.Errorf("%q", text)
					}
				}
				if n := r.dials.Load(); n != 2 {
					t.Errorf("%d connections", n)
				}
			})
		})
	}
}
