package door_test

import (
	"context"
	"log/slog"
	"net"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"berth/agent/shim/door"
	"berth/fleet/wire"
	"berth/internal/listen"
	"berth/internal/memnet"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	doorAddr   = "192.0.2.17:20000"
	engineAddr = "127.0.0.1:9000"
	key        = "the-key"
)

// rig is a door in front of an engine that is one handler, in a bubble.
type rig struct {
	*testing.T
	host   *memnet.Host
	gate   *door.Gate
	h1, h2 *http.Client // HTTP/1.1 and h2c, from another host

}

// inBubble runs a test behind an open door; a nil engine is one that does not listen.
func inBubble(t *testing.T, engine http.HandlerFunc, test func(*rig)) {
	synctest.Test(t, func(t *testing.T) {
		n := memnet.New(1)
		g := &rig{T: t, host: n.Host("192.0.2.17")}
		began := time.Now()
		g.gate = door.NewGate(7, func() time.Duration { return time.Since(began) })
		g.gate.Starting(1)
		g.gate.Ready()
		h := door.New(door.Config{Gate: g.gate, Key: key, Engine: engineAddr, Network: g.host, Log: slog.New(slog.DiscardHandler)})
		ctx, cancel := context.WithCancel(context.Background())
		ends := []<-chan error{g.serve(ctx, doorAddr, h)}
		if engine != nil {
			ends = append(ends, g.serve(ctx, engineAddr, engine))
		}
		router := n.Host("192.0.2.1")
		t1, t2 := listen.Transport(router), listen.TransportH2C(router)
		g.h1, g.h2 = &http.Client{Transport: t1}, &http.Client{Transport: t2}
		test(g)
		for _, each := range []*http.Transport{t1, t2} {
			each.CloseIdleConnections()
		}
		h.CloseIdle()
		cancel()
		for _, end := range ends {
			if err := <-end; err != nil {
				t.Error(err)
			}
		}
	})
}

func (g *rig) serve(ctx context.Context, addr string, h http.Handler) <-chan error {
	ln, err := g.host.Listen(ctx, addr)
	if err != nil {
		g.Fatal(err)
	}
	end := make(chan error, 1)
	go func() { end <- listen.ServeHTTP(ctx, ln, h, listen.ServerOptions{H2C: true, Drain: time.Second}) }()
	return end
}

func request(ctx context.Context, t *testing.T, method, path string, body interface {
	Read([]byte) (int, error)
}) *http.Request {
	t.Helper()
	r, err := http.NewRequestWithContext(ctx, method, "http://"+doorAddr+path, body)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set(wire.HeaderReplicaKey, key)
	return r
}

// dial opens a bare connection to the door.
func (g *rig) dial() net.Conn {
	g.Helper()
	c, err := g.host.Dial(g.Context(), doorAddr)
	if err != nil {
		g.Fatal(err)
	}
	return c
}

// idle fails unless the gate has admitted n requests and all of them have ended.
func (g *rig) idle(n uint64) {
	g.Helper()
	synctest.Wait()
	if r := g.gate.Reading(); r.Admissions != n || r.InFlight != 0 {
		g.Errorf("admissions %d, in flight %d; want %d and 0", r.Admissions, r.InFlight, n)
	}
}
