// Package upstream owns the connections to engines for requests that are wholly in memory, which are nearly all. It must
// never know a replica, a retry or what a request means.
//
// net/http's Transport runs two goroutines for each connection and hands every request and every answer between them and
// the caller; that is more than half of what a proxy in Go costs. Here the caller's own goroutine writes the request and
// reads the answer. What that cannot do (a body that is still coming, trailers, Expect) goes to a Transport.
package upstream
