// Package stores measures the log stores that a peer could have beside each other, on one disk: raft-boltdb as it comes and as Berth sets it, raft-wal,
// and Berth's own. It is a module of its own so that Berth's does not depend on what it does not use. Run it with make bench-stores.
package stores
