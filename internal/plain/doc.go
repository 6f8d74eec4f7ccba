// Package plain owns the plain form of messages of HTTP/1.1, strictly: what a lenient reader and a strict one could read
// differently is not plain, and whoever meets it leaves it to net/http. It also owns the thin way of reading connections:
// one that waits holds no buffer. It must never know what a message is about.
package plain
