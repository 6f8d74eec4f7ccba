// Package listen is the one place that makes listeners, and the one place that says how a process of this module
// reaches another. It owns the rule that nothing listens beyond loopback in the clear unless the operator said so, the
// limits of every HTTP server and client, and their orderly end. It must never know a role, a route, or what the
// bytes mean.
//
// Everything goes through a [Network], so that the same code runs on the real network ([System]) and on an in-memory
// one inside a test bubble.
package listen
