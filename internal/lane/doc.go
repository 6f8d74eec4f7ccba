// Package lane serves the plain requests of HTTP/1.1 at the price of a plain proxy, and leaves every other connection to
// net/http. It owns connections until something on them is not plain; it must never know what a request asks for.
//
// Plain is: POST, on one of a few paths, HTTP/1.1, a header that comes in one piece of strictly valid lines, one Host,
// one Content-Length, and nothing that asks for more than an answer (no Transfer-Encoding, Expect, Upgrade, TE, Trailer).
// What a lenient reader and a strict one could read differently is therefore never read here: the first byte that is not
// plain sends the connection, with all that was read of it, to net/http, which answers or refuses it as it does without
// this package. HTTP/2 and TLS go there too.
//
// A connection that waits, for a request or for an answer's next piece, holds no buffer, and nobody reads ahead of the
// handler to learn of the client's end: the kernel tells of that (see hangups).
package lane
