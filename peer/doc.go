// Package peer is the control-plane role: it wires consensus, gossip, the observed side and the HTTP API into one process, and holds the
// duties of the leader. It owns how these parts are joined, when each duty runs, and what a leader concludes from what it hears. It must never
// know how a command changes the state (fsm), where a replica fits (scheduler), or how a request is parsed (admin).
//
// A [Peer] is made by [New], which takes the data directory and opens nothing else, and lives as long as its Run. What runs in it:
//
//	consensus   the log; it calls lead once a term
//	gossip      who is there
//	HTTP        the API, health and metrics
//	follower    once a tick: pass held heartbeats to the leader, get its stamp and its observations
//	entrance    until this peer is in the configuration and its row is true: ask the leader for it
//	lead        the duties, joined before the next term begins:
//	            found (the cluster's identity), planning, liveness, drains, promotion, levels, dead peers, housekeeping
//
// Each duty has a file of its own, is given the two or three things it needs, and proposes commands; none of them writes state.
package peer
