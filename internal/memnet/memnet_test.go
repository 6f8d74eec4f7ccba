package memnet_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"berth/internal/listen"
	"berth/internal/memnet"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var _ listen.Network = (*memnet.Host)(nil)

// pair gives both ends of a connection from a to b.
func pair(t *testing.T, a, b *memnet.Host) (near, far net.Conn) {
	t.Helper()
	ln, err := b.Listen(t.Context(), ":0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	if near, err = a.Dial(t.Context(), ln.Addr().String()); err != nil {
		t.Fatal(err)
	}
	if far, err = ln.Accept(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { near.Close(); far.Close() })
	return near, far
}

func TestHTTPOverHosts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := memnet.New(1)
		n.SetLatency(3 * time.Millisecond)
		a, b := n.Host("10.0.0.1"), n.Host("peer-2", "10.0.0.2")
		ctx, cancel := context.WithCancel(t.Context())
		ln, err := b.Listen(ctx, "10.0.0.2:7300")
		if err != nil {
			t.Fatal(err)
		}
		var wg sync.WaitGroup
		wg.Go(func() {
			h := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, "from "+r.RemoteAddr) })
			if err := listen.ServeHTTP(ctx, ln, h, listen.ServerOptions{}); err != nil {
				t.Error(err)
			}
		})
		tr := listen.Transport(a)
		start := time.Now()
		resp, err := (&http.Client{Transport: tr}).Get("http://peer-2:7300/")
		if err != nil {
			t.Fatal(err)
		}
		body, _ := io.ReadAll(resp.Body)
		resp.Body.Close()
		if !strings.HasPrefix(string(body), "from 10.0.0.1:") {
			t.Errorf("answer %q", body)
		}
		if took := time.Since(start); took != 12*time.Millisecond { // handshake, request, answer
			t.Errorf("took %v, want two round trips of 6ms", took)
		}
		tr.CloseIdleConnections()
		cancel()
		wg.Wait()
	})
}

func TestDeadlines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := memnet.New(1)
		near, far := pair(t, n.Host("a"), n.Host("b"))
		start := time.Now()
		near.SetReadDeadline(start.Add(time.Second))
		_, err := near.Read(make([]byte, 1))
		var ne net.Error
		if !errors.As(err, &ne) || !ne.Timeout() || !errors.Is(err, os.ErrDeadlineExceeded) || time.Since(start) != time.Second {
			t.Errorf("read: %v after %v", err, time.Since(start))
		}
		near.SetReadDeadline(time.Time{})
		near.SetWriteDeadline(time.Now().Add(time.Second))
		sent, err := near.Write(make([]byte, 100<<10))
		if sent != 64<<10 || !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("write into a full window: %d, %v", sent, err)
		}
		got, _ := io.ReadAtLeast(far, make([]byte, 100<<10), 64<<10)
		if got != 64<<10 {
			t.Errorf("other end read %d", got)
		}
	})
}

func TestDeadlineWakesARunningRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := memnet.New(1)
		near, _ := pair(t, n.Host("a"), n.Host("b"))
		done := make(chan error)
		go func() { _, err := near.Read(make([]byte, 1)); done <- err }()
		synctest.Wait()
		near.SetReadDeadline(time.Unix(1, 0))
		if err := <-done; !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Error(err)
		}
	})
}

func TestStreamKeepsOrderAndEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := memnet.New(1)
		n.SetLatency(time.Millisecond)
		near, far := pair(t, n.Host("a"), n.Host("b"))
		want := bytes.Repeat([]byte("0123456789"), 50_000)
		go func() { near.Write(want); near.Close() }()
		got, err := io.ReadAll(far)
		if err != nil || !bytes.Equal(got, want) {
			t.Errorf("read %d bytes, %v; want %d", len(got), err, len(want))
		}
		if _, err := far.Write([]byte("x")); !errors.Is(err, syscall.EPIPE) {
			t.Errorf("write to a closed end: %v", err)
		}
		if err := near.Close(); !errors.Is(err, net.ErrClosed) {
			t.Errorf("second close: %v", err)
		}
	})
}

func TestIsolationAndHeal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := memnet.New(1)
		a, b := n.Host("a"), n.Host("b")
		near, far := pair(t, a, b)
		ln, err := b.Listen(t.Context(), "b:80")
		if err != nil {
			t.Fatal(err)
		}
		defer ln.Close()
		n.Isolate("b")
		for _, c := range []net.Conn{near, far} {
			if _, err := c.Read(make([]byte, 1)); !errors.Is(err, syscall.ECONNRESET) {
				t.Errorf("read over a cut: %v", err)
			}
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := a.Dial(ctx, "b:80"); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("dial over a cut: %v", err)
		}
		time.AfterFunc(10*time.Second, func() { n.Heal("b") })
		start := time.Now()
		c, err := a.Dial(t.Context(), "b:80")
		if err != nil || time.Since(start) != 10*time.Second {
			t.Fatalf("dial through the heal: %v after %v", err, time.Since(start))
		}
		c.Close()
	})
}

func TestDialIntoSilenceTimesOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := memnet.New(1)
		n.Host("b")
		n.Isolate("b")
		if _, err := n.Host("a").Dial(t.Context(), "b:80"); !errors.Is(err, syscall.ETIMEDOUT) {
			t.Error(err)
		}
	})
}

func TestStallHoldsBytesBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := memnet.New(1)
		near, far := pair(t, n.Host("a"), n.Host("b"))
		n.Stall("a", "b")
		io.WriteString(near, "late")
		near.Close()
		far.SetReadDeadline(time.Now().Add(time.Minute))
		if _, err := far.Read(make([]byte, 4)); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("read during a stall: %v", err)
		}
		n.Heal("a")
		far.SetReadDeadline(time.Time{})
		if got, err := io.ReadAll(far); string(got) != "late" || err != nil {
			t.Errorf("after heal %q, %v", got, err)
		}
	})
}

func TestStallHoldsTheEndBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := memnet.New(1)
		near, far := pair(t, n.Host("a"), n.Host("b"))
		n.Stall("a", "b")
		near.Close()
		far.SetReadDeadline(time.Now().Add(time.Minute))
		if _, err := far.Read(make([]byte, 4)); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("read during a stall: %v", err)
		}
	})
}

func TestCutLosesWhatAClosedEndSent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := memnet.New(1)
		n.SetLatency(time.Second)
		near, far := pair(t, n.Host("a"), n.Host("b"))
		io.WriteString(near, "in flight")
		near.Close()
		n.Cut("a", "b")
		if got, err := io.ReadAll(far); len(got) != 0 || !errors.Is(err, syscall.ECONNRESET) {
			t.Errorf("%q, %v came through the cut", got, err)
		}
	})
}

func TestUnacceptedConnectionIsReset(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := memnet.New(1)
		ln, err := n.Host("b").Listen(t.Context(), "b:80")
		if err != nil {
			t.Fatal(err)
		}
		c, err := n.Host("a").Dial(t.Context(), "b:80")
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		ln.Close()
		if _, err := c.Read(make([]byte, 1)); !errors.Is(err, syscall.ECONNRESET) {
			t.Error(err)
		}
		if _, err := ln.Accept(); !errors.Is(err, net.ErrClosed) {
			t.Errorf("accept after close: %v", err)
		}
	})
}

func TestKill(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := memnet.New(1)
		a, b := n.Host("a"), n.Host("b")
		shim := b.Process()
		near, _ := pair(t, a, b)
		spared, _ := pair(t, a, shim)
		agent := b.Process()
		if _, err := agent.Listen(t.Context(), "b:7310"); err != nil {
			t.Fatal(err)
		}
		agent.Kill()
		if _, err := a.Dial(t.Context(), "b:7310"); !errors.Is(err, syscall.ECONNREFUSED) {
			t.Errorf("dial to a killed process: %v", err)
		}
		if _, err := near.Write([]byte("x")); err != nil {
			t.Errorf("the death of one process reached another: %v", err)
		}
		b.Kill()
		for _, c := range []net.Conn{near, spared} {
			if _, err := c.Read(make([]byte, 1)); !errors.Is(err, syscall.ECONNRESET) {
				t.Errorf("read from a killed host: %v", err)
			}
		}
		for _, h := range []*memnet.Host{b, shim} {
			if _, err := h.Listen(t.Context(), ":80"); err == nil {
				t.Error("a killed process listens")
			}
		}
		ln, err := n.Host("b").Listen(t.Context(), "b:7310")
		if err != nil {
			t.Fatalf("after a restart: %v", err)
		}
		ln.Close()
	})
}
