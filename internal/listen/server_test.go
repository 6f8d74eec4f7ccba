package listen_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"berth/internal/listen"
	"berth/internal/memnet"
)

const addr = "10.0.0.1:7300"

// server is a running server on a network of its own.
type server struct {
	host *memnet.Host
	stop context.CancelFunc
	done chan error
}

func serve(t *testing.T, o listen.ServerOptions, h http.HandlerFunc) *server {
	t.Helper()
	host := memnet.New(1).Host("10.0.0.1")
	ln, err := host.Listen(t.Context(), addr)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	s := &server{host: host, stop: stop, done: make(chan error, 1)}
	go func() { s.done <- listen.ServeHTTP(ctx, ln, h, o) }()
	return s
}

func (s *server) get(tr *http.Transport) (*http.Response, string, error) {
	resp, err := (&http.Client{Transport: tr}).Get("http://" + addr)
	if err != nil {
		return nil, "", err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	return resp, string(body), err
}

func hello(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "hello") }

func TestProtocols(t *testing.T) {
	for _, c := range []struct {
		h2c  bool
		tr   func(listen.Network) *http.Transport
		want string // empty: refused
	}{
		{false, listen.Transport, "HTTP/1.1"},
		{true, listen.Transport, "HTTP/1.1"},
		{true, listen.TransportH2C, "HTTP/2.0"},
		{false, listen.TransportH2C, ""},
	} {
		t.Run(fmt.Sprintf("h2c=%v/%s", c.h2c, c.want), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := serve(t, listen.ServerOptions{H2C: c.h2c}, hello)
				tr := c.tr(s.host)
				resp, body, err := s.get(tr)
				switch {
				case c.want == "" && err == nil:
					t.Error("a server without h2c answered HTTP/2")
				case c.want != "" && (err != nil || resp.Proto != c.want || body != "hello"):
					t.Errorf("%v %q %v, want %s", resp, body, err, c.want)
				}
				tr.CloseIdleConnections()
				s.stop()
				if err := <-s.done; err != nil {
					t.Error(err)
				}
			})
		})
	}
}

func TestRequestInFlightFinishes(t *testing.T) {
	for name, transport := range map[string]func(listen.Network) *http.Transport{"http1": listen.Transport, "h2c": listen.TransportH2C} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := serve(t, listen.ServerOptions{H2C: true, Drain: time.Minute}, func(w http.ResponseWriter, r *http.Request) {
					<-listen.Stopping(r.Context())
					time.Sleep(30 * time.Second)
					if r.Context().Err() == nil {
						io.WriteString(w, "whole")
					}
				})
				time.AfterFunc(time.Second, s.stop)
				tr := transport(s.host)
				_, body, err := s.get(tr)
				if body != "whole" || err != nil {
					t.Errorf("%q, %v", body, err)
				}
				tr.CloseIdleConnections()
				if err := <-s.done; err != nil {
					t.Error(err)
				}
			})
		})
	}
}

func TestRequestPastTheDrainIsCut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log strings.Builder
		o := listen.ServerOptions{Drain: 3 * time.Second, Log: slog.New(slog.NewTextHandler(&log, nil))}
		s := serve(t, o, func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
		time.AfterFunc(time.Second, s.stop)
		start := time.Now()
		if _, _, err := s.get(listen.Transport(s.host)); err == nil {
			t.Error("a cut request ended well")
		}
		if err := <-s.done; err != nil {
			t.Error(err)
		}
		if took := time.Since(start); took != 4*time.Second {
			t.Errorf("stopped after %v, want 1s+3s", took)
		}
		if !strings.Contains(log.String(), "requests=1") {
			t.Errorf("log %q does not count what was cut", log.String())
		}
	})
}

func TestHandlerWithAConnectionOfItsOwnHearsOfTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := serve(t, listen.ServerOptions{Drain: time.Second}, func(w http.ResponseWriter, r *http.Request) {
			c, _, err := http.NewResponseController(w).Hijack()
			if err != nil {
				t.Error(err)
				return
			}
			defer c.Close()
			<-r.Context().Done()
		})
		time.AfterFunc(time.Second, s.stop)
		s.get(listen.Transport(s.host)) // fails: nobody answers
		if err := <-s.done; err != nil {
			t.Error(err)
		}
	})
}

func TestHandlerThatIgnoresTheCutIsReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		defer close(release)
		s := serve(t, listen.ServerOptions{Drain: time.Second}, func(http.ResponseWriter, *http.Request) { <-release })
		time.AfterFunc(time.Second, s.stop)
		s.get(listen.Transport(s.host))
		if err := <-s.done; err == nil || !strings.Contains(err.Error(), "1 handlers") {
			t.Errorf("stuck handler: %v", err)
		}
	})
}

func TestSlowHeadersLoseTheConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := serve(t, listen.ServerOptions{}, hello)
		c, err := s.host.Dial(t.Context(), addr)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		start := time.Now()
		io.WriteString(c, "GET / HTTP/1.1\r\nHost: ")
		io.ReadAll(c)
		if took := time.Since(start); took < listen.ReadHeaderTimeout || took > listen.ReadHeaderTimeout+time.Second {
			t.Errorf("connection closed after %v, want %v", took, listen.ReadHeaderTimeout)
		}
		s.stop()
		<-s.done
	})
}

func TestLargeHeadersAreRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := serve(t, listen.ServerOptions{}, hello)
		c, err := s.host.Dial(t.Context(), addr)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		go fmt.Fprintf(c, "GET / HTTP/1.1\r\nHost: x\r\nA: %s\r\n\r\n", strings.Repeat("a", 2*listen.MaxHeaderBytes))
		line, err := bufio.NewReader(c).ReadString('\n')
		if !strings.Contains(line, "431") {
			t.Errorf("answer %q, %v; want status 431", line, err)
		}
		s.stop()
		<-s.done
	})
}

func TestBrokenListenerIsAnError(t *testing.T) {
	ln := brokenListener{}
	err := listen.ServeHTTP(t.Context(), ln, http.HandlerFunc(hello), listen.ServerOptions{})
	if !errors.Is(err, errBroken) || !strings.Contains(err.Error(), "192.0.2.1") {
		t.Error(err)
	}
}

var errBroken = errors.New("broken")

type brokenListener struct{}

func (brokenListener) Accept() (net.Conn, error) { return nil, errBroken }
func (brokenListener) Close() error              { return nil }
func (brokenListener) Addr() net.Addr            { return &net.TCPAddr{IP: net.IPv4(192, 0, 2, 1), Port: 80} }

func TestStoppingOutsideAServer(t *testing.T) {
	if listen.Stopping(context.Background()) != nil {
		t.Error("a context of no server stops")
	}
}

func TestTransportGivesUpDialling(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := memnet.New(1)
		n.Host("10.0.0.1")
		n.Isolate("10.0.0.1")
		start := time.Now()
		_, err := (&http.Client{Transport: listen.Transport(n.Host("10.0.0.2"))}).Get("http://" + addr)
		if err == nil || time.Since(start) != listen.DialTimeout {
			t.Errorf("%v after %v, want an error after %v", err, time.Since(start), listen.DialTimeout)
		}
	})
}
