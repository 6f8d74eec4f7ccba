package memnet_test

import (
	"context"
	"errors"
	"net"
	"os"
	"slices"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"berth/internal/memnet"
)

// deliver sends count datagrams from one host to another and gives the numbers of those that came.
func deliver(t *testing.T, n *memnet.Network, from, to string, count int) []byte {
	t.Helper()
	tx, err := n.Host(from).ListenPacket(t.Context(), from+":7302")
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Close()
	rx, err := n.Host(to).ListenPacket(t.Context(), to+":7302")
	if err != nil {
		t.Fatal(err)
	}
	defer rx.Close()
	for i := range count {
		if _, err := tx.WriteTo([]byte{byte(i)}, rx.LocalAddr()); err != nil {
			t.Fatal(err)
		}
	}
	rx.SetReadDeadline(time.Now().Add(time.Second))
	var got []byte
	for buf := make([]byte, 8); ; {
		_, src, err := rx.ReadFrom(buf)
		if errors.Is(err, os.ErrDeadlineExceeded) {
			return got
		}
		if err != nil || src.String() != tx.LocalAddr().String() {
			t.Fatalf("from %v: %v", src, err)
		}
		got = append(got, buf[0])
	}
}

func TestPackets(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := memnet.New(1)
		n.SetLatency(5 * time.Millisecond)
		if got := deliver(t, n, "10.0.0.1", "10.0.0.2", 100); len(got) != 100 {
			t.Errorf("%d of 100 arrived", len(got))
		}
	})
}

func TestOneWayCut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := memnet.New(1)
		n.Cut("a", "b")
		if got := deliver(t, n, "a", "b", 10); len(got) != 0 {
			t.Errorf("%d came through the cut", len(got))
		}
		if got := deliver(t, n, "b", "a", 10); len(got) != 10 {
			t.Errorf("%d of 10 came the open way", len(got))
		}
		n.HealAll()
		if got := deliver(t, n, "a", "b", 10); len(got) != 10 {
			t.Errorf("%d of 10 came after the heal", len(got))
		}
	})
}

func TestLossFollowsTheSeed(t *testing.T) {
	lossy := func(seed uint64) (got []byte) {
		synctest.Test(t, func(t *testing.T) {
			n := memnet.New(seed)
			n.SetLoss(0.3)
			got = deliver(t, n, "a", "b", 200)
		})
		return got
	}
	first := lossy(7)
	if len(first) < 110 || len(first) > 170 {
		t.Errorf("%d of 200 arrived at a loss of 0.3", len(first))
	}
	if !slices.Equal(first, lossy(7)) {
		t.Error("one seed, two outcomes")
	}
	if slices.Equal(first, lossy(8)) {
		t.Error("two seeds, one outcome")
	}
}

func TestBinding(t *testing.T) {
	n := memnet.New(1)
	a, b := n.Host("10.0.0.1"), n.Host("10.0.0.2")
	open := func(h *memnet.Host, addr string) (net.Listener, error) { return h.Listen(context.Background(), addr) }
	lo, err := open(a, "127.0.0.1:80")
	if err != nil {
		t.Fatal(err)
	}
	defer lo.Close()
	for _, c := range []struct {
		host *memnet.Host
		addr string
		want error
	}{
		{a, "127.0.0.1:80", syscall.EADDRINUSE},
		{a, ":80", syscall.EADDRINUSE},
		{a, "10.0.0.2:80", syscall.EADDRNOTAVAIL},
		{a, "10.0.0.1:80", nil},
		{b, "127.0.0.1:80", nil},
	} {
		ln, err := open(c.host, c.addr)
		if !errors.Is(err, c.want) {
			t.Errorf("%s on %s: %v, want %v", c.addr, c.host.Name(), err, c.want)
		}
		if err == nil {
			ln.Close()
		}
	}
	if _, err := b.Dial(context.Background(), "10.0.0.1:80"); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("loopback reached from another host: %v", err)
	}
	c, err := a.Dial(context.Background(), "localhost:80")
	if err != nil {
		t.Fatal(err)
	}
	c.Close()
	if _, ok := lo.Addr().(*net.TCPAddr); !ok {
		t.Errorf("address is %T", lo.Addr())
	}
	var dns *net.DNSError
	if _, err := a.Dial(context.Background(), "nowhere:80"); !errors.As(err, &dns) {
		t.Errorf("unknown host: %v", err)
	}
}
