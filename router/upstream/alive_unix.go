//go:build unix

package upstream

import (
	"net"
	"syscall"
)

// alive says whether the other side has neither closed the connection nor sent anything on it. A request that is written
// into a connection that is closing is lost.
func alive(c net.Conn) bool {
	s, ok := c.(syscall.Conn)
	if !ok {
		return peek(c)
	}
	raw, err := s.SyscallConn()
	if err != nil {
		return false
	}
	quiet := false
	err = raw.Read(func(fd uintptr) bool {
		var b [1]byte
		_, _, err := syscall.Recvfrom(int(fd), b[:], syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
		quiet = err == syscall.EAGAIN
		return true
	})
	return err == nil && quiet
}
