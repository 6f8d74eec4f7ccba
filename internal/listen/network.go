package listen

import (
	"context"
	"net"
	"time"
)

// Network makes listeners and connections. Addresses are "host:port", as in package net.
type Network interface {
	// Listen opens a stream listener. The context bounds the opening, not the life of the listener.
	Listen(ctx context.Context, addr string) (net.Listener, error)
	// ListenPacket opens a datagram socket. The context bounds the opening, not the life of the socket.
	ListenPacket(ctx context.Context, addr string) (net.PacketConn, error)
	// Dial opens a stream connection. The context bounds the dialling, not the life of the connection.
	Dial(ctx context.Context, addr string) (net.Conn, error)
}

// System is the network of the machine: TCP and UDP.
var System Network = system{}

type system struct{}

// keepAlive finds a dead peer of a silent connection in 15 + 3×5 = 30 s, the time after which a silent node is judged.
// The kernel's default is more than two hours.
var keepAlive = net.KeepAliveConfig{Enable: true, Idle: 15 * time.Second, Interval: 5 * time.Second, Count: 3}

func (system) Listen(ctx context.Context, addr string) (net.Listener, error) {
	lc := net.ListenConfig{KeepAliveConfig: keepAlive}
	return lc.Listen(ctx, "tcp", addr)
}

func (system) ListenPacket(ctx context.Context, addr string) (net.PacketConn, error) {
	var lc net.ListenConfig
	return lc.ListenPacket(ctx, "udp", addr)
}

func (system) Dial(ctx context.Context, addr string) (net.Conn, error) {
	d := net.Dialer{KeepAliveConfig: keepAlive}
	return d.DialContext(ctx, "tcp", addr)
}
