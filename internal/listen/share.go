package listen

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
)

// Sharer is a [Network] on which several processes may listen on one address, so that one can take over from another.
type Sharer interface {
	// ListenShared is Listen for an address that other processes of this user may have opened by it too.
	ListenShared(ctx context.Context, addr string) (net.Listener, error)
}

// leader is a shared listener.
type leader interface{ Lead() error }

// Lead sends all connections that begin from now on to the newest listener on the address, which is the caller's when it
// has just opened it. Those of the older one keep what they have, and what has come to them and was not accepted yet, so
// nobody loses a connection when they go on to accept for a moment and then close. It does nothing for a listener that
// is not shared.
func Lead(ln net.Listener) error {
	if l, ok := ln.(leader); ok {
		return l.Lead()
	}
	return nil
}

// open opens the address on the network, shared if that is asked for.
func open(ctx context.Context, network Network, s Spec) (net.Listener, error) {
	if !s.Shared {
		return network.Listen(ctx, s.Addr)
	}
	sharer, ok := network.(Sharer)
	if !ok {
		return nil, errors.New("addresses cannot be shared on this network")
	}
	return sharer.ListenShared(ctx, s.Addr)
}

// secure wraps a listener in TLS and keeps its power to lead.
func secure(ln net.Listener, c *tls.Config) net.Listener {
	wrapped := tls.NewListener(ln, c)
	if l, ok := ln.(leader); ok {
		return struct {
			net.Listener
			leader
		}{wrapped, l}
	}
	return wrapped
}
