package listen

import (
	"context"
	"errors"
	"fmt"
	"net"
	"syscall"

	"golang.org/x/sys/unix"
)

// ListenShared implements [Sharer] by SO_REUSEPORT.
func (system) ListenShared(ctx context.Context, addr string) (net.Listener, error) {
	lc := net.ListenConfig{KeepAliveConfig: keepAlive, Control: func(_, _ string, c syscall.RawConn) error {
		return onSocket(c, func(fd int) error { return unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_REUSEPORT, 1) })
	}}
	lc.SetMultipathTCP(false) // its sockets take no program, see Lead
	ln, err := lc.Listen(ctx, "tcp", addr)
	if err != nil {
		return nil, err
	}
	return &shared{ln.(*net.TCPListener)}, nil
}

type shared struct{ *net.TCPListener }

// Lead implements leader. The kernel numbers the sockets of an address in the order in which they were opened, moves the
// last one into the place of one that closes, and asks the program below which one a new connection goes to. With two
// sockets that is the newer one; with one, number 1 does not exist and the kernel falls back to the one there is.
func (s *shared) Lead() error {
	program := []unix.SockFilter{{Code: unix.BPF_RET | unix.BPF_K, K: 1}}
	c, err := s.SyscallConn()
	if err != nil {
		return fmt.Errorf("take over %s: %w", s.Addr(), err)
	}
	err = onSocket(c, func(fd int) error {
		return unix.SetsockoptSockFprog(fd, unix.SOL_SOCKET, unix.SO_ATTACH_REUSEPORT_CBPF, &unix.SockFprog{Len: uint16(len(program)), Filter: &program[0]})
	})
	if err != nil {
		return fmt.Errorf("take over %s: %w", s.Addr(), err)
	}
	return nil
}

func onSocket(c syscall.RawConn, f func(fd int) error) error {
	var err error
	return errors.Join(c.Control(func(fd uintptr) { err = f(int(fd)) }), err)
}
