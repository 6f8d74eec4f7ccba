// Package memnet is a network in memory: hosts, streams, datagrams, latency, loss and cuts, for tests that run whole
// clusters in a testing/synctest bubble. It owns what a network does to its users and must never know what they say.
//
// A [Network] holds hosts by name. A [Host] opens listeners and dials as that host; it implements the network interface
// of package listen. Addresses are "host:port" with any text as host; a host may have further names. Loopback addresses
// ("127.0.0.1", "::1", "localhost") are each host's own, and an empty host or "0.0.0.0" listens on all names of a host.
//
// All waiting is on condition variables, channels and timers of the bubble, so a bubble in which everyone waits for
// this network is durably blocked and its clock can move on.
package memnet
