package gossip_test

import (
	"context"
	"errors"
	"syscall"
	"testing"
	"time"

	"berth/gossip"
)

// local gives a member on the machine's own network.
func local(id string, seeds ...string) gossip.Config {
	c := configure(1)
	c.ID, c.Meta.Name, c.Bind, c.Seeds = id, id, "127.0.0.1:0", seeds
	return c
}

// TestOnSockets: two members find each other over real sockets, and end with nothing left but what memberlist has running.
func TestOnSockets(t *testing.T) {
	a, err := gossip.Open(t.Context(), local("a"))
	if err != nil {
		t.Fatal(err)
	}
	b, err := gossip.Open(t.Context(), local("b", a.Address()))
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 2)
	for _, g := range []*gossip.Gossip{a, b} {
		go func() { ended <- g.Run(ctx) }()
	}
	limit := time.After(10 * time.Second)
	for {
		aChanged, bChanged := a.Watch(), b.Watch()
		if len(a.Members()) == 2 && len(b.Members()) == 2 {
			break
		}
		select {
		case <-aChanged:
		case <-bChanged:
		case <-limit:
			t.Fatalf("%v and %v", a.Members(), b.Members())
		}
	}
	stop()
	for range 2 {
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
}

func TestPortInUse(t *testing.T) {
	a, err := gossip.Open(t.Context(), local("a"))
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	c := local("b")
	c.Bind = a.Address()
	if _, err := gossip.Open(t.Context(), c); !errors.Is(err, syscall.EADDRINUSE) {
		t.Errorf("error %v, want one that wraps EADDRINUSE", err)
	}
}
