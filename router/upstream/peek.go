package upstream

import (
	"errors"
	"net"
	"os"
	"time"
)

// peek is alive for a connection that has no socket of its own. A deadline in the past would be answered before anything
// is looked at.
func peek(c net.Conn) bool {
	if c.SetReadDeadline(time.Now().Add(time.Microsecond)) != nil {
		return false
	}
	var b [1]byte
	_, err := c.Read(b[:])
	return errors.Is(err, os.ErrDeadlineExceeded) && c.SetReadDeadline(time.Time{}) == nil
}
