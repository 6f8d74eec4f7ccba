package listen_test

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"berth/internal/listen"
	"berth/internal/memnet"
)

const plainPath = "/v1/x"

// ways are the handlers on which a plain request and any other must come to the same.
var ways = map[string]http.HandlerFunc{
	"nothing": func(http.ResponseWriter, *http.Request) {},
	"echo": func(w http.ResponseWriter, r *http.Request) {
		b, err := io.ReadAll(r.Body)
		fmt.Fprint(w, len(b), err, r.Host, r.URL, r.Header["X-A"], r.ContentLength)
	},
	"body not read": func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "no", http.StatusTeapot) },
	"short":         func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "a"); io.WriteString(w, "b") },
	"long":          func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, strings.Repeat("x", 100_000)) },
	"many": func(w http.ResponseWriter, _ *http.Request) {
		for range 1000 {
			io.WriteString(w, "0123456789abcdef")
		}
	},
	"length": func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", "10000")
		w.Write(bytes.Repeat([]byte("x"), 10_000))
	},
	"too short": func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", "10")
		io.WriteString(w, "x")
	},
	"too long": func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", "1")
		io.WriteString(w, "x")
		_, err := io.WriteString(w, "yz")
		if err != http.ErrContentLength {
			panic(err)
		}
	},
	"flushed": func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		w.(http.Flusher).Flush()
		for i := range 5 {
			fmt.Fprintf(w, "data: %d\n\n", i)
			w.(http.Flusher).Flush()
		}
	},
	"trailers": func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Trailer", "X-Usage")
		io.WriteString(w, "abc")
		w.(http.Flusher).Flush()
		w.Header().Set("X-Usage", "7")
		w.Header().Set(http.TrailerPrefix+"X-Late", "8")
	},
	"none at all": func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusNoContent)
		if _, err := io.WriteString(w, "x"); err != http.ErrBodyNotAllowed {
			panic(err)
		}
	},
	"close": func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Connection", "close")
		io.WriteString(w, "bye")
	},
	"headers": func(w http.ResponseWriter, _ *http.Request) {
		w.Header()["X-Two"] = []string{"1", "2"}
		w.Header().Set("X-Split", "a\r\nX-Evil: b")
		w.Header().Set("Bad Name", "c")
		w.Header().Set("Date", "then")
		w.WriteHeader(http.StatusAccepted)
		w.WriteHeader(http.StatusOK)
		w.Header().Set("X-After", "too late")
	},
	"given up": func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) },
	"given up late": func(w http.ResponseWriter, _ *http.Request) {
		io.WriteString(w, "half")
		w.(http.Flusher).Flush()
		io.WriteString(w, "never sent")
		panic(http.ErrAbortHandler)
	},
}

// told is an answer as a client sees it.
func told(in *bufio.Reader) (string, bool) {
	resp, err := http.ReadResponse(in, nil)
	if err != nil {
		return "no answer", false
	}
	body, err := io.ReadAll(resp.Body)
	if resp.Header.Get("Date") == "" {
		return "no date", false
	}
	if resp.Header.Get("Date") != "then" {
		resp.Header.Del("Date")
	}
	if resp.Header.Get("X-Content-Type-Options") == "" {
		resp.Header.Del("Content-Type") // net/http guesses it, which is for browsers
	}
	return fmt.Sprintf("%d %v length %d %q trailers %v close %v err %v", resp.StatusCode, resp.Header, resp.ContentLength, body, resp.Trailer, resp.Close, err), err == nil && !resp.Close
}

// TestPlainIsTheSame: for each way of answering, two requests on one connection by package lane and by net/http, over sockets
// and in memory: the same statuses, headers, bytes, trailers and ends.
func TestPlainIsTheSame(t *testing.T) {
	for name, h := range ways {
		t.Run(name, func(t *testing.T) {
			over := func(network listen.Network, at string) (answers [2]string) {
				for i := range answers {
					o := listen.ServerOptions{}
					if i == 0 {
						o.Plain, o.PlainBody = func(p string) bool { return p == plainPath }, 1<<10
					}
					ctx, stop := context.WithCancel(t.Context())
					ln, err := network.Listen(ctx, at)
					if err != nil {
						t.Fatal(err)
					}
					done := make(chan error, 1)
					go func() { done <- listen.ServeHTTP(ctx, ln, h, o) }()
					c, err := network.Dial(ctx, ln.Addr().String())
					if err != nil {
						t.Fatal(err)
					}
					in := bufio.NewReader(c)
					for range 2 {
						fmt.Fprintf(c, "POST %s HTTP/1.1\r\nHost: h\r\nX-A: 1\r\nX-A: 2\r\nContent-Length: 5\r\n\r\n12345", plainPath)
						text, goesOn := told(in)
						if answers[i] += text + "\n"; !goesOn {
							break
						}
					}
					c.Close()
					stop()
					if err := <-done; err != nil {
						t.Fatal(err)
					}
				}
				return answers
			}
			if a := over(listen.System, "127.0.0.1:0"); a[0] != a[1] {
				t.Errorf("over sockets:\n%s\nby net/http:\n%s", a[0], a[1])
			}
			synctest.Test(t, func(t *testing.T) {
				if a := over(memnet.New(1).Host("10.0.0.1"), "10.0.0.1:80"); a[0] != a[1] {
					t.Errorf("in memory:\n%s\nby net/http:\n%s", a[0], a[1])
				}
			})
		})
	}
}

// plainServer serves by package lane over a socket. seen counts handlers that have ended.
func plainServer(t *testing.T, h http.HandlerFunc) (dial func() (net.Conn, *bufio.Reader), stop func() error) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	ln, err := listen.System.Listen(ctx, "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	o := listen.ServerOptions{H2C: true, Plain: func(p string) bool { return p == plainPath }, PlainBody: 1 << 10}
	go func() { done <- listen.ServeHTTP(ctx, ln, h, o) }()
	t.Cleanup(cancel)
	dial = func() (net.Conn, *bufio.Reader) {
		c, err := net.Dial("tcp", ln.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		return c, bufio.NewReader(c)
	}
	return dial, func() error { cancel(); return <-done }
}

const plainRequest = "POST " + plainPath + " HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\n\r\n12345"

// TestAClientThatGoesIsNoticed while its request is answered, also when it had sent more before it went.
func TestAClientThatGoesIsNoticed(t *testing.T) {
	for _, more := range []string{"", plainRequest} {
		began, gone := make(chan struct{}, 2), make(chan struct{}, 2)
		dial, stop := plainServer(t, func(w http.ResponseWriter, r *http.Request) {
			began <- struct{}{}
			<-r.Context().Done()
			gone <- struct{}{}
		})
		c, _ := dial()
		io.WriteString(c, plainRequest+more)
		<-began
		c.Close()
		select {
		case <-gone:
		case <-time.After(2 * time.Second):
			t.Errorf("with %d bytes more: the client's end is not noticed within 2 s", len(more))
		}
		if err := stop(); err != nil {
			t.Error(err)
		}
	}
}

// TestFromPlainToAnythingElse: one connection carries plain requests, pipelined too, until one that is not plain, and then
// all others; a head in pieces and HTTP/2 are served as well.
func TestFromPlainToAnythingElse(t *testing.T) {
	dial, stop := plainServer(t, func(w http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		fmt.Fprint(w, r.Method, r.Proto, string(b))
	})
	c, in := dial()
	ask := func(text string, want ...string) {
		t.Helper()
		io.WriteString(c, text)
		for _, w := range want {
			resp, err := http.ReadResponse(in, nil)
			if err != nil {
				t.Fatalf("%q: %v", text, err)
			}
			if b, _ := io.ReadAll(resp.Body); string(b) != w {
				t.Errorf("%q: %q, want %q", text, b, w)
			}
		}
	}
	ask(plainRequest, "POSTHTTP/1.112345")
	ask(plainRequest+plainRequest+plainRequest, "POSTHTTP/1.112345", "POSTHTTP/1.112345", "POSTHTTP/1.112345")
	ask(plainRequest[:len(plainRequest)-2])
	ask("45"+plainRequest[:30], "POSTHTTP/1.112345")
	ask(plainRequest[30:], "POSTHTTP/1.112345")
	ask("GET / HTTP/1.1\r\nHost: h\r\n\r\n"+plainRequest, "GETHTTP/1.1", "POSTHTTP/1.112345")
	ask("POST "+plainPath+" HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n0\r\n\r\n", "POSTHTTP/1.1ab")
	two := listen.TransportH2C(listen.System)
	defer two.CloseIdleConnections()
	resp, err := (&http.Client{Transport: two}).Post("http://"+c.RemoteAddr().String()+plainPath, "text/plain", strings.NewReader("12345"))
	if err != nil {
		t.Fatal(err)
	}
	if b, _ := io.ReadAll(resp.Body); string(b) != "POSTHTTP/2.012345" {
		t.Errorf("%q", b)
	}
	resp.Body.Close()
	two.CloseIdleConnections()
	c.Close()
	if err := stop(); err != nil {
		t.Error(err)
	}
}

// TestPlainStops: at the end an idle connection is closed at once, and a request in flight finishes and says that it was
// the last.
func TestPlainStops(t *testing.T) {
	began, go_ := make(chan struct{}), make(chan struct{})
	dial, stop := plainServer(t, func(w http.ResponseWriter, r *http.Request) {
		close(began)
		<-listen.Stopping(r.Context())
		<-go_
		io.WriteString(w, "done")
	})
	_, idle := dial()
	c, in := dial()
	io.WriteString(c, plainRequest)
	<-began
	ended := make(chan error, 1)
	go func() { ended <- stop() }()
	if _, err := idle.ReadByte(); err != io.EOF {
		t.Errorf("the idle connection: %v", err)
	}
	close(go_)
	resp, err := http.ReadResponse(in, nil)
	if err != nil {
		t.Fatal(err)
	}
	if b, _ := io.ReadAll(resp.Body); string(b) != "done" || !resp.Close {
		t.Errorf("%q, close %v", b, resp.Close)
	}
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
