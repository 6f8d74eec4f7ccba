package listen_test

import (
	"net"
	"sync"
	"testing"

	"berth/internal/listen"
)

func shared(t *testing.T, addr string) net.Listener {
	t.Helper()
	ln, err := listen.Policy{}.Listen(t.Context(), listen.System, listen.Spec{Addr: addr, Shared: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ln.Close() })
	if err := listen.Lead(ln); err != nil {
		t.Fatal(err)
	}
	return ln
}

// TestLeadTakesEveryNewConnection: while two listen, the newer one gets all that begins; when either closes, the other
// does, and so it is again with a third.
func TestLeadTakesEveryNewConnection(t *testing.T) {
	first := shared(t, "127.0.0.1:0")
	got := make(chan net.Listener, 1)
	var wg sync.WaitGroup
	serve := func(ln net.Listener) {
		wg.Go(func() {
			for {
				c, err := ln.Accept()
				if err != nil {
					return
				}
				c.Close()
				got <- ln
			}
		})
	}
	all := func(want net.Listener, when string) {
		t.Helper()
		for range 50 {
			c, err := net.Dial("tcp", first.Addr().String())
			if err != nil {
				t.Fatal(err)
			}
			if <-got != want {
				t.Errorf("%s: another listener has a connection", when)
			}
			c.Close()
		}
	}
	serve(first)
	all(first, "alone")
	second := shared(t, first.Addr().String())
	serve(second)
	all(second, "with a newer one")
	first.Close()
	all(second, "when the older one has closed")
	third := shared(t, first.Addr().String())
	serve(third)
	all(third, "with a third")
	third.Close()
	all(second, "when the newest has closed")
	second.Close()
	wg.Wait()
}
