package listen

import (
	"context"
	"net"
	"net/http"
	"time"
)

// Limits of every HTTP client. There is none on the time of an answer: a blocking query waits half a minute and an
// engine may think for longer. The request's context bounds it.
const (
	DialTimeout = 5 * time.Second
	// clientIdle is shorter than the server's IdleTimeout, so that the client closes first and no request is sent into
	// a connection that the server is closing.
	clientIdle = 50 * time.Second
)

// Transport gives an HTTP/1.1 transport that dials through the network and keeps connections alive. It uses no proxy
// and asks for no compression: what it carries is passed on as it came. Its owner calls CloseIdleConnections at the end.
func Transport(network Network) *http.Transport {
	return &http.Transport{
		DialContext: func(ctx context.Context, _, addr string) (net.Conn, error) {
			ctx, cancel := context.WithTimeout(ctx, DialTimeout)
			defer cancel()
			return network.Dial(ctx, addr)
		},
		TLSHandshakeTimeout:    DialTimeout,
		MaxIdleConns:           1024,
		MaxIdleConnsPerHost:    64, // net/http's 2 would close most connections of a busy endpoint after each request
		IdleConnTimeout:        clientIdle,
		MaxResponseHeaderBytes: MaxHeaderBytes,
		DisableCompression:     true,
	}
}

// TransportH2C is Transport for servers that speak HTTP/2 in the clear: many requests share one connection. It speaks
// nothing else. A connection whose peer has gone silent is found by pings within 25 s.
func TransportH2C(network Network) *http.Transport {
	t := Transport(network)
	t.Protocols = new(http.Protocols)
	t.Protocols.SetUnencryptedHTTP2(true)
	t.HTTP2 = &http.HTTP2Config{SendPingTimeout: 15 * time.Second, PingTimeout: 10 * time.Second}
	return t
}
