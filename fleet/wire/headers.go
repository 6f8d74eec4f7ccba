package wire

// Version is the version of the messages in this package. A neighbour of another minor release may send one more or less.
const Version = 1

// Prefix is the path under which a peer's API lives.
const Prefix = "/api/v1"

// Headers of the peers' API.
const (
	HeaderIndex        = "X-Berth-Index"            // EPOCH.N that the answer was computed at
	HeaderCommitIndex  = "X-Berth-Commit-Index"     // newest commit index of the leader that this peer knows
	HeaderKnowledgeAge = "X-Berth-Knowledge-Age-Ms" // age of that pair
	HeaderKnownLeader  = "X-Berth-Known-Leader"     // peer id; empty: none known
	HeaderCluster      = "X-Berth-Cluster"
	HeaderRequestID    = "X-Request-Id"
	HeaderForwarded    = "X-Berth-Forwarded" // id of the peer that forwarded; a request is forwarded once
)

// Headers between router and door.
const (
	HeaderReplicaKey = "Berth-Replica-Key" // request: proves that the sender's address is not stale
	HeaderDoor       = "Berth-Door"        // answer: the door itself refused; one of the Door* reasons
)

// Reasons of a door's refusal, as HeaderDoor carries them.
const (
	DoorShut     = "shut"
	DoorStarting = "starting"
	DoorWrongKey = "wrong-key"
	DoorRoute    = "route"
)
