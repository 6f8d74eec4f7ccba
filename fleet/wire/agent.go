package wire

import "berth/fleet"

// Registration is what an agent says of itself and its machine: PUT agents/{node}. It is sent at start, when the inventory changes, and when
// the peers ask for it. Running is everything found on the machine, so that a node becomes ready again in the entry that records it.
type Registration struct {
	Version       int                 `json:"version"`
	Name          string              `json:"name"`
	ID            string              `json:"id"`
	Instance      uint64              `json:"instance"`
	Cluster       string              `json:"cluster,omitempty"` // the cluster this agent has joined before
	Address       string              `json:"address"`
	EngineAddress string              `json:"engine_address"`
	Release       string              `json:"release"`
	Level         int                 `json:"level"`
	Labels        map[string]string   `json:"labels,omitempty"`
	Inventory     fleet.Inventory     `json:"inventory"`
	Engines       []fleet.EngineOffer `json:"engines,omitempty"`
	ModelRoots    []string            `json:"model_roots,omitempty"`
	Running       []Running           `json:"running,omitempty"`
	Unmanaged     []fleet.Unmanaged   `json:"unmanaged,omitempty"`
}

// Running is one shard that an agent found running under a shim of its own.
type Running struct {
	Replica    string        `json:"replica"`
	Rank       int           `json:"rank"`
	Model      string        `json:"model"`
	Generation uint64        `json:"generation"`
	RunHash    string        `json:"run_hash"`
	Order      fleet.Index   `json:"order"` // newest order that its shim has
	Start      uint64        `json:"start"`
	Ready      bool          `json:"ready"`
	Shim       uint64        `json:"shim"`
	Door       *fleet.Door   `json:"door,omitempty"`
	Claims     []fleet.Claim `json:"claims"`
}

// Registered answers a Registration.
type Registered struct {
	Cluster string      `json:"cluster"`
	Index   fleet.Index `json:"index"`
}

// Orders is everything that one agent is to run or to stop: GET agents/{node}/orders (blocking). What is not listed is no order at all: an
// agent never stops an engine because its row is missing.
type Orders struct {
	Version int         `json:"version"`
	Cluster string      `json:"cluster"`
	Node    string      `json:"node"`
	Index   fleet.Index `json:"index"`
	Orders  []Order     `json:"orders"`
}

// Actions of an Order.
const (
	ActionRun  = "run"
	ActionStop = "stop"
)

// Order tells an agent what to do with one shard.
type Order struct {
	ID         fleet.Index     `json:"order"` // of the entry that gave it; an older one than seen is refused
	Action     string          `json:"action"`
	Replica    string          `json:"replica"`
	Model      string          `json:"model"`
	Generation uint64          `json:"generation"`
	RunHash    string          `json:"run_hash"`
	Rank       int             `json:"rank"`
	Start      uint64          `json:"start"` // start number; a gang's shim starts its engine again only for a higher one
	Spec       fleet.ModelSpec `json:"spec"`
	Claims     []fleet.Claim   `json:"claims"`
	Ranks      []RankAddress   `json:"ranks"`            // every shard, in order of rank
	Master     string          `json:"master,omitempty"` // where the ranks meet; ranks above 0 wait until it is there
	Drain      *fleet.Drain    `json:"drain,omitempty"`  // with ActionStop
}

// RankAddress is one shard of a gang and the address of its node.
type RankAddress struct {
	Node string `json:"node"`
	Host string `json:"host"`
	GPUs int    `json:"gpus"`
}

// What a Transition reports.
const (
	BecameStarting  = "starting"  // rank 0: door and key are known; the engine loads
	BecameReady     = "ready"     // health and one real token
	BecameExited    = "exited"    // the engine ended by itself; a gang waits for a new start number
	BecameShut      = "shut"      // rank 0: the door is shut and empty, the engine is being ended
	BecameWithdrawn = "withdrawn" // a conditional drain found the door's mark changed: ready as before
	BecameStopped   = "stopped"   // the shard has ended; with Released, its cards are proved empty
	BecameFailed    = "failed"    // it cannot run here: bad weights, restarts exhausted, stuck
)

// Transitions is a batch of lifecycle reports: POST agents/{node}/transitions.
type Transitions struct {
	Version  int          `json:"version"`
	Instance uint64       `json:"instance"`
	Items    []Transition `json:"items"`
}

// Transition is one step in the life of a shard. Order names the order that it answers; an answer to an older one is refused.
type Transition struct {
	Replica  string      `json:"replica"`
	Rank     int         `json:"rank"`
	Order    fleet.Index `json:"order"`
	Start    uint64      `json:"start"`
	To       string      `json:"to"`
	Shim     uint64      `json:"shim,omitempty"`
	Door     *fleet.Door `json:"door,omitempty"`
	Master   string      `json:"master,omitempty"`
	Restarts int         `json:"restarts,omitempty"`
	Exit     *fleet.Exit `json:"exit,omitempty"`
	Reason   string      `json:"reason,omitempty"`
	Released bool        `json:"released,omitempty"`
	Cut      int         `json:"cut,omitempty"` // requests that the deadline of a drain cut
}

// TransitionResults answers Transitions, one result an item: empty is accepted, otherwise the reason for the refusal. A refused item is never
// sent again.
type TransitionResults struct {
	Index   fleet.Index `json:"index"`
	Results []string    `json:"results"`
}

// Stamp is the leader's word for "now": its term and its own clock, which runs on while the machine is suspended. Stamps of one term are
// compared by Clock; nobody but the leader that made it gives Clock a meaning.
type Stamp struct {
	Leader string `json:"leader"`
	Term   uint64 `json:"term"`
	Clock  int64  `json:"clock"` // nanoseconds
}

// Heartbeat is an agent's observed state: POST agents/{node}/heartbeat.
type Heartbeat struct {
	Version  int       `json:"version"`
	Node     string    `json:"node"`
	ID       string    `json:"id"`
	Instance uint64    `json:"instance"`
	Seq      uint64    `json:"seq"`
	Orders   string    `json:"orders,omitempty"` // index of the newest orders that the agent has, EPOCH.N
	Readings []Reading `json:"readings,omitempty"`
	GPUs     []GPULoad `json:"gpus,omitempty"`
}

// GPULoad is what a card does right now; what cannot be measured is left out.
type GPULoad struct {
	UUID        string   `json:"uuid"`
	UsedBytes   *int64   `json:"used_bytes,omitempty"`
	Utilization *float64 `json:"utilization,omitempty"` // 0 to 1
	Celsius     *float64 `json:"celsius,omitempty"`
	Watts       *float64 `json:"watts,omitempty"`
}

// Reading is what a replica's door says of its use. It proves nothing later than Stamp: the newest stamp that the agent had noted BEFORE it
// asked the door, however long the reading then sat in a buffer. An age that is absent means never.
type Reading struct {
	Replica    string   `json:"replica"`
	Shim       uint64   `json:"shim"`   // shim number, a counter on the node's disk
	Engine     uint64   `json:"engine"` // engine start within the shim
	Number     uint64   `json:"number"` // reading number within the shim
	Admissions uint64   `json:"admissions"`
	InFlight   int      `json:"in_flight"`
	UseAge     *float64 `json:"use_age_seconds,omitempty"`   // since the newest use began or ended
	ReadyAge   *float64 `json:"ready_age_seconds,omitempty"` // since the engine became ready
	Shut       bool     `json:"shut,omitempty"`
	Stamp      *Stamp   `json:"stamp,omitempty"`
}

// HeartbeatAnswer answers a Heartbeat. A peer that has had no leader's stamp for 5 s says so by leaving Stamp out, and the agent moves on.
type HeartbeatAnswer struct {
	Cluster  string         `json:"cluster"`
	Stamp    *Stamp         `json:"stamp,omitempty"`
	Interval fleet.Duration `json:"interval"`           // H
	Register bool           `json:"register,omitempty"` // the peers do not know this instance: register
	// PeerHTTP lists the peers' addresses, so that an agent finds them again whatever gossip thinks.
	PeerHTTP []string `json:"peer_http,omitempty"`
}

// Relay is what a follower passes to the leader once a tick: the newest heartbeat of each node, whole, with how long it was held (for liveness
// alone). POST /internal/v1/heartbeats; the answer is a RelayAnswer.
type Relay struct {
	Version    int    `json:"version"`
	Peer       string `json:"peer"`
	Heartbeats []Held `json:"heartbeats"`
	// Alive lists the gossip members that this peer sees alive, the second witness of liveness: node name → instance.
	Alive map[string]uint64 `json:"alive,omitempty"`
	// Warnings are what this peer wants a person to see about itself, a line each.
	Warnings []string `json:"warnings,omitempty"`
	Backup   *Backup  `json:"backup,omitempty"` // its last good one; absent: none, or it takes none
	// Have says what this follower has heard of what the leader observes, so that the answer holds only what is news.
	Have Have `json:"have"`
}

// Have is how far a follower has heard a leader of a term: the versions of its rows. The zero value has heard nothing.
type Have struct {
	Term  uint64 `json:"term"`
	Idle  uint64 `json:"idle"`
	Nodes uint64 `json:"nodes"`
}

// Backup is a snapshot that a peer took by its schedule and read back whole.
type Backup struct {
	Peer       string      `json:"peer"`
	Index      fleet.Index `json:"index"`
	AgeSeconds float64     `json:"age_seconds"` // since it was found good
	File       string      `json:"file"`        // its name; the folder is the peer's own affair
}

// Held is a heartbeat and how long the follower held it.
type Held struct {
	HeldSeconds float64   `json:"held_seconds"`
	Heartbeat   Heartbeat `json:"heartbeat"`
}

// RelayAnswer gives a follower the next stamp to hand out.
type RelayAnswer struct {
	Stamp    Stamp          `json:"stamp"`
	Interval fleet.Duration `json:"interval"`
	// Observed holds of Nodes and Idle only the rows that are news to this follower, and its Routers without their Uses. A row of Idle has neither
	// Model nor GPUs, which the follower knows itself.
	Observed *Observed `json:"observed,omitempty"`
	// Have is what the follower has heard with this answer, to be said with its next relay. There may be more: one answer holds so many rows only.
	Have Have `json:"have"`
}

// Observed is everything that the leader has observed and that status is computed from. Followers hear it with the answers to their relays and
// show it with its age, so that any peer answers what only the leader can know.
type Observed struct {
	Leader     string         `json:"leader"`
	Term       uint64         `json:"term"`
	AgeSeconds float64        `json:"age_seconds"` // since the leader said it; 0 at the leader itself
	Interval   fleet.Duration `json:"interval"`    // H
	// ListeningSeconds is for how long this leader could have been told.
	ListeningSeconds float64            `json:"listening_seconds"`
	Nodes            map[string]float64 `json:"nodes"` // seconds since the newest heartbeat, by node; absent: none heard in this term
	Discovered       []NodeView         `json:"discovered,omitempty"`
	Idle             []IdleView         `json:"idle,omitempty"`
	Routers          []RouterView       `json:"routers,omitempty"`
	Refusals         []SinceRefusal     `json:"refusals,omitempty"`
	Silent           Silent             `json:"silent"`
	Attention        []string           `json:"attention,omitempty"` // what the leader's duties want a person to see
	Backup           *Backup            `json:"backup,omitempty"`    // the newest of all peers
}

// SinceRefusal is a refusal of the planner and for how long it has stood.
type SinceRefusal struct {
	fleet.Refusal
	SinceSeconds float64 `json:"since_seconds"`
}
