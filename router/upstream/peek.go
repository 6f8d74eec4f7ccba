package upstream

import (
	"errors"
	"net"
	"os"
	"time"
)

// peek is alive for a connection that has no socket of its own.
func peek(c net.Conn) bool {
	if c.SetReadDeadline(time.Unix(1, 0)) != nil {
		return false
	}
	var b [1]byte
	_, err := c.Read(b[:])
	return errors.Is(err, os.ErrDeadlineExceeded) && c.SetReadDeadline(time.Time{}) == nil
}
