// Package fsm is the replicated state machine: the commands, the state that they make, the snapshot of that state, and every rule that must
// hold whatever a proposer believed. It must never know a clock, a network, a disk, a configuration or what is merely observed: equal entries
// give equal states on every peer, today and when the log is replayed next year by another release.
//
// # How a command passes
//
// A proposer calls Encode; raft orders the bytes; every peer calls Machine.Apply with them. Apply looks the request id up first, then checks
// the command against the state, then writes. It checks everything before it writes anything, so a rejected command leaves no trace but its
// remembered answer. Rejections are *fleet.Error values inside the Outcome. The error that Apply returns is another thing: this peer cannot
// know what the entry means, and must stop rather than let its state drift from the others'.
//
// # What the state is
//
// One immutable tree a kind of row (package ordered), behind an atomic pointer. A reader loads the pointer and then reads a moment in history
// for as long as it likes; rows are shared and must never be written to. Indexes (replicas by model and by node, names) are derived from rows,
// kept beside them, and never stored.
//
// # How it is stored
//
// The log holds commands as JSON, which people and later releases can read. A snapshot holds rows in a binary form (package record, fields.go):
// it is read whenever a peer starts, falls behind or is restored, and must not be what that waits for.
package fsm

// Level is the newest version of the replicated command set that this release understands. A command names the level that it needs; the leader
// raises the cluster's level only when every server supports it. History, newest last:
//
//	1  2026-12-01  the first set: cluster, servers, models, nodes, plans, transitions, settings, freeze, epoch.
const Level = 1
