//go:build !unix

package plain

import (
	"errors"
	"net"
	"syscall"
)

// socketOf: sockets of this system are not read from in this way.
func socketOf(net.Conn) syscall.RawConn { return nil }

func read(uintptr, []byte) (int, error) { return 0, errors.ErrUnsupported }
