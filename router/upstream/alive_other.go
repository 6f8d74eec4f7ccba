//go:build !unix

package upstream

import "net"

func alive(c net.Conn) bool { return peek(c) }
