package wire

import "berth/fleet"

// ErrorBody is how the API says that something was refused or failed.
type ErrorBody struct {
	Error fleet.Error `json:"error"`
}

// List is one page of rows.
type List[T any] struct {
	Items []T    `json:"items"`
	Next  string `json:"next,omitempty"` // pass it as ?next=; empty: this was the last page
}

// ModelView is a model as GET models shows it.
type ModelView struct {
	fleet.Model
	Ready    int            `json:"ready"`
	Starting int            `json:"starting"`
	State    string         `json:"state"` // satisfied, short, unplaceable, deleting, at zero
	Refusal  *fleet.Refusal `json:"refusal,omitempty"`
	Since    float64        `json:"refused_since_seconds,omitempty"`
}

// ApplyAnswer answers PUT models/{model}, PUT scale/{model} and DELETE models/{model}.
type ApplyAnswer struct {
	Index      fleet.Index `json:"index"`
	Generation uint64      `json:"generation"`
	Changed    bool        `json:"changed"`
	Warnings   []string    `json:"warnings,omitempty"`
}

// ReplicaView is a replica as GET replicas shows it; never its key. Unknown durations are -1.
type ReplicaView struct {
	fleet.Replica
	Lost         bool    `json:"lost,omitempty"` // its node is unreachable
	AgeSeconds   float64 `json:"age_seconds"`    // in this state
	IdleSeconds  float64 `json:"idle_seconds"`   // since the newest use that any witness saw
	QuietSeconds float64 `json:"quiet_seconds"`  // how long it is certain that nobody used it
	AsOfSeconds  float64 `json:"as_of_seconds"`  // age of that certainty
	InFlight     int     `json:"in_flight"`      // -1: unknown
}

// NodeView is a node as GET nodes shows it. A machine that only gossip knows is listed as discovered, with the reason.
type NodeView struct {
	fleet.Node
	State            string  `json:"state"` // ready, cordoned, draining, unreachable, discovered
	Reason           string  `json:"reason,omitempty"`
	FabricName       string  `json:"fabric,omitempty"`
	HeartbeatSeconds float64 `json:"heartbeat_seconds"` // age of the newest heartbeat; -1: none heard
	GPUsTotal        int     `json:"gpus_total"`
	GPUsFree         int     `json:"gpus_free"`
	Replicas         int     `json:"replicas"`
}

// PeerView is a peer as GET peers shows it.
type PeerView struct {
	ID           string  `json:"id"`
	HTTP         string  `json:"http"`
	Raft         string  `json:"raft"`
	State        string  `json:"state"` // leader, follower, non-voter, unreachable, discovered
	Voter        bool    `json:"voter"`
	Version      string  `json:"version,omitempty"`
	Level        int     `json:"level,omitempty"`
	AppliedIndex string  `json:"applied_index,omitempty"`
	Fingerprint  string  `json:"fingerprint,omitempty"` // of its state at AppliedIndex
	HeardSeconds float64 `json:"heard_seconds"`         // -1: never
}

// RouterView is a router as GET routers shows it, with its last report.
type RouterView struct {
	ID           string      `json:"id"`
	Address      string      `json:"address,omitempty"`
	Admin        string      `json:"admin,omitempty"`
	Boot         uint64      `json:"boot"`
	Version      string      `json:"version,omitempty"`
	State        string      `json:"state"` // reporting, silent
	HeardSeconds float64     `json:"heard_seconds"`
	Table        fleet.Index `json:"table"`
	InFlight     int         `json:"in_flight"`
	// Uses is what this router itself has seen since its boot; what it has not served has no entry.
	Uses   map[string]Use    `json:"uses,omitempty"`
	Demand map[string]Demand `json:"demand,omitempty"`
}

// IdleView is one row of GET idle: the ledger's word on one replica. Unknown durations are -1.
type IdleView struct {
	ID           string  `json:"id"`
	Model        string  `json:"model"`
	IdleSeconds  float64 `json:"idle_seconds"`
	QuietSeconds float64 `json:"quiet_seconds"`
	AsOfSeconds  float64 `json:"as_of_seconds"`
	InFlight     int     `json:"in_flight"`
	GPUs         int     `json:"gpus"`
	Why          string  `json:"why,omitempty"` // why quiet is unknown
}

// IdleAnswer answers GET idle.
type IdleAnswer struct {
	Leader        string     `json:"leader"`
	Replicas      []IdleView `json:"replicas"`
	SilentAgents  []string   `json:"silent_agents"`
	SilentRouters []string   `json:"silent_routers"`
}

// VersionAnswer answers GET version.
type VersionAnswer struct {
	Version string `json:"version"`
	Level   int    `json:"level"`
	Go      string `json:"go"`
}

// SnapshotInfo describes a snapshot file.
type SnapshotInfo struct {
	Format      int         `json:"format"`
	Level       int         `json:"level"`
	Cluster     string      `json:"cluster"`
	Index       fleet.Index `json:"index"`
	Records     int         `json:"records"`
	Bytes       int64       `json:"bytes"`
	Fingerprint string      `json:"fingerprint"`
}

// Event is one line of history: an applied change, or an observation of the leader.
type Event struct {
	Seq     uint64     `json:"seq"`
	At      fleet.Time `json:"at"`
	Index   string     `json:"index,omitempty"` // EPOCH.N of the change; empty for an observation
	Kind    string     `json:"kind"`            // model, node, replica, cluster, leader, gossip, observation
	Who     string     `json:"who,omitempty"`
	Command string     `json:"command,omitempty"` // kind of the log entry, for example node.admin; empty for an observation
	Node    string     `json:"node,omitempty"`    // of a replica: its first shard's
	Nodes   []string   `json:"nodes,omitempty"`   // of a replica over several
	Model   string     `json:"model,omitempty"`
	Replica string     `json:"replica,omitempty"`
	Text    string     `json:"text"`
	Why     string     `json:"why,omitempty"`
}

// PlanAnswer answers POST plan: what would be placed and stopped, and what would be refused and why.
type PlanAnswer struct {
	Items    []fleet.PlanItem `json:"items"`
	Refusals []fleet.Refusal  `json:"refusals"`
}

// DrainView is a node's drain and the replicas that are left there.
type DrainView struct {
	fleet.NodeDrain
	Left []string `json:"left"`
	// Waiting says what the replicas that are left wait for, when the planner finds no room for their replacement.
	Waiting []string `json:"waiting,omitempty"`
}

// PeerSelf is what a peer knows of itself: GET /internal/v1/self. Two peers at one index have one fingerprint.
type PeerSelf struct {
	ID           string      `json:"id"`
	AppliedIndex fleet.Index `json:"applied_index"`
	Fingerprint  string      `json:"fingerprint"`
}
