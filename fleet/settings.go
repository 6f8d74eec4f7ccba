package fleet

// Settings are the cluster-wide settings, replicated and changed by command.
type Settings struct {
	IdleThreshold       Duration `json:"idle_threshold"` // from when status names a quiet replica as one that can be stopped
	NodeGrace           Duration `json:"node_grace"`     // silence after which a node is unreachable; at least 6 heartbeats
	Truce               Duration `json:"truce"`          // after an election nobody is judged for so long
	RemoveDeadPeerAfter Duration `json:"remove_dead_peer_after,omitempty"`
}

// DefaultSettings returns the settings of a new cluster.
func DefaultSettings() Settings {
	return Settings{
		IdleThreshold: Duration(10 * minute),
		NodeGrace:     Duration(30 * second),
		Truce:         Duration(60 * second),
	}
}

// Check says what is wrong with the settings, or nil.
func (s Settings) Check() error {
	if s.NodeGrace < 6*second {
		return Errorf(BadRequest, "node_grace is %s; at least 6s are needed, six heartbeats", s.NodeGrace)
	}
	return nil
}

// Freeze stops placement, eviction and unloading while it is there.
type Freeze struct {
	Reason string `json:"reason"`
	By     string `json:"by,omitempty"`
	At     Time   `json:"at"`
}

// Server is one peer as the state knows it: where it answers and what it understands.
type Server struct {
	ID       string `json:"id"`
	HTTP     string `json:"http"` // host:port
	Raft     string `json:"raft"`
	MaxLevel int    `json:"max_level"` // newest level of the command set that it understands
	Version  string `json:"version,omitempty"`
	Changed  Index  `json:"changed"`
}

// Cluster is the identity of the cluster.
type Cluster struct {
	ID        string `json:"id"`
	Epoch     uint64 `json:"epoch"`
	Level     int    `json:"level"`
	CreatedAt Time   `json:"created_at"`
}
