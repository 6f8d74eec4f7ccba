package procs

import (
	"context"
	"fmt"
	"net"
	"os"
	"strconv"

	"berth/internal/listen"
)

// Ports hands out loopback ports that were free for TCP and for UDP when it looked, each only once. They lie below the range that the kernel
// gives to outgoing connections (net.ipv4.ip_local_port_range, from 32768 on), so that none of those takes one before its owner listens there.
type Ports struct{ next int }

const (
	firstPort = 11000
	lastPort  = 32000
	spread    = 18000 // over which processes begin to look, so that two that run at once seldom meet
)

// NewPorts returns a source of ports.
func NewPorts() *Ports { return &Ports{next: firstPort + os.Getpid()*61%spread} }

// Take returns the first of n neighbouring ports, all of them free.
func (p *Ports) Take(n int) (int, error) {
	run := 0
	for p.next < lastPort {
		p.next++
		if run++; !free(p.next - 1) {
			run = 0
		}
		if run == n {
			return p.next - n, nil
		}
	}
	return 0, fmt.Errorf("no %d neighbouring ports up to %d are free", n, lastPort)
}

func free(port int) bool {
	addr := net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
	l, err := listen.System.Listen(context.Background(), addr)
	if err != nil {
		return false
	}
	defer l.Close()
	c, err := listen.System.ListenPacket(context.Background(), addr)
	if err != nil {
		return false
	}
	return c.Close() == nil
}
