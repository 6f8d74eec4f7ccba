// Package door is the only way in to one replica's engine: it checks the replica's key, passes serving routes and
// nothing else, and counts every use. It owns the lock under which a request is admitted, and with it the one place
// that can say both "used" and "not used". It must never know a process, an order, a disk or a peer.
//
// A [Gate] is the count and the decision; a [Handler] is the HTTP in front of it.
package door
