// Package consensus makes one history out of several peers: hashicorp/raft wired to the state machine of package fsm,
// on a disk that is watched and a port that speaks only to peers of this cluster. It owns the raft library, the log
// and snapshot files, the raft port, leadership, membership and what a peer may claim to know. It must never know what
// a command means, who asked for it, HTTP, or gossip: who might be a peer is handed in as a list.
//
// A [Node] is opened on a data directory and lives until its Run returns:
//
//	peer.json    who this peer is: id, cluster once known, the one promise of a bootstrap (version 1)
//	raft.db      term and vote, and the log where LogStore is boltdb (raft-boltdb/v2)
//	log/         the log otherwise (package wal)
//	snapshots/   the last three snapshots (raft's file store)
//	place.json   where the directory is used, so that a copy of it is refused
//	ballast      room that is given up when the disk is full
//	LOCK         held by the process that uses the directory
//
// Rules that the rest of the program builds on:
//
//   - No call waits on raft without a deadline. A write whose fate is not known says so (fleet.OutcomeUnknown).
//   - A disk that stalls or lies ends the peer ([Config.Fatal]). raft by itself would keep a leader that can write
//     nothing for ever, since heartbeats need no disk.
//   - Leadership is one function call with a context ([Node.Lead]).
//   - Freshness is measured ([Node.Knowledge]); raft's last contact is not freshness.
package consensus
