package fleet

// ReplicaState is where a replica is in its life.
type ReplicaState string

// Replica states: starting → ready → draining → stopped, and failed from any of them; ready → starting is a restart in place.
const (
	Starting     ReplicaState = "starting"
	Ready        ReplicaState = "ready"
	DrainingDown ReplicaState = "draining"
	Stopped      ReplicaState = "stopped"
	Failed       ReplicaState = "failed"
)

// Live says whether a replica in this state serves or will serve without another order.
func (s ReplicaState) Live() bool { return s == Starting || s == Ready }

// Claim is one GPU, whole (Share 0) or by a stated amount of its memory.
type Claim struct {
	GPU   string `json:"gpu"` // UUID
	Share Bytes  `json:"share,omitempty"`
}

// Shard is the part of a replica on one node; rank 0's door takes the requests.
type Shard struct {
	Node     string  `json:"node"`
	Claims   []Claim `json:"claims"`
	Released bool    `json:"released,omitempty"` // its agent has proved the cards empty; until then the claims hold
	Shim     uint64  `json:"shim,omitempty"`     // shim number that last reported
	Exit     *Exit   `json:"exit,omitempty"`     // the engine's last exit
}

// Exit is how an engine's process ended.
type Exit struct {
	Code   int      `json:"code"`             // exit status; -1 when a signal ended it
	Signal string   `json:"signal,omitempty"` // for example SIGKILL
	At     Time     `json:"at,omitzero"`
	Log    []string `json:"log,omitempty"` // the last lines that it wrote
}

// Door is where a replica takes requests. Its key is shown to routers alone.
type Door struct {
	Address string `json:"address"`       // host:port
	Key     string `json:"key,omitempty"` // Berth-Replica-Key
}

// Mark identifies a moment in a door's life: nothing was admitted since as long as it is unchanged.
type Mark struct {
	Shim       uint64 `json:"shim"`
	Engine     uint64 `json:"engine"` // engine start within the shim
	Admissions uint64 `json:"admissions"`
}

// Drain is a stop that was ordered.
type Drain struct {
	Reason   string   `json:"reason"`
	Minimum  Duration `json:"minimum"`
	Deadline Duration `json:"deadline"`
	At       Time     `json:"at"`
	// Mark makes the drain conditional: the door shuts only if this is still its mark, otherwise the replica is ready again.
	Mark *Mark `json:"mark,omitempty"`
	// DoorShut says that rank 0 has reported its door shut and empty, so that the other ranks may end.
	DoorShut bool `json:"door_shut,omitempty"`
	// Failed is the reason for which the replica is failed, not stopped, once its shards have ended.
	Failed string `json:"failed,omitempty"`
}

// Replica is one running copy of a model.
type Replica struct {
	ID         string       `json:"id"` // r-EPOCH.INDEX.N: made from the entry that placed it
	Model      string       `json:"model"`
	Generation uint64       `json:"generation"`
	RunHash    string       `json:"run_hash"`
	State      ReplicaState `json:"state"`
	Reason     string       `json:"reason,omitempty"`
	Shards     []Shard      `json:"shards"`
	Door       *Door        `json:"door,omitempty"`   // once rank 0 has reported it
	Master     string       `json:"master,omitempty"` // host:port where the ranks of a gang meet; set by rank 0 for each start
	Start      uint64       `json:"start"`            // start number; ranks of a gang start together under one
	Restarts   int          `json:"restarts"`         // since it was last ready for long
	Order      Index        `json:"order"`            // of the newest order (run or stop)
	Drain      *Drain       `json:"drain,omitempty"`
	Marks      []string     `json:"marks,omitempty"` // overcommitted, split fabric, device gone, stuck
	CreatedAt  Time         `json:"created_at"`
	StateAt    Time         `json:"state_at"` // of the last change of State
	Changed    Index        `json:"changed"`
}

// Released says whether every shard's agent has proved its cards empty.
func (r *Replica) Released() bool {
	for _, s := range r.Shards {
		if !s.Released {
			return false
		}
	}
	return true
}

// Rank returns the rank of the replica's shard on that node, or -1.
func (r *Replica) Rank(node string) int {
	for i, s := range r.Shards {
		if s.Node == node {
			return i
		}
	}
	return -1
}
