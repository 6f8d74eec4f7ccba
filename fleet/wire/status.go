package wire

import "berth/fleet"

// Status is the whole fleet on one screen: GET status.
type Status struct {
	Cluster        string           `json:"cluster"`
	Peer           string           `json:"peer"`   // that answers
	Leader         string           `json:"leader"` // empty: none known
	Index          fleet.Index      `json:"index"`
	KnowledgeAgeMS int64            `json:"knowledge_age_ms"` // of the agreed state; -1: unknown
	ObservedAgeMS  int64            `json:"observed_age_ms"`  // of what the leader observes, idle times above all; -1: none was heard
	CaughtUp       bool             `json:"caught_up"`
	Frozen         *fleet.Freeze    `json:"frozen"`
	Brake          *string          `json:"brake"`
	Nodes          NodeCounts       `json:"nodes"`
	GPUs           []ClassCounts    `json:"gpus"`
	Fabrics        []FabricCounts   `json:"fabrics"`
	Replicas       ReplicaCounts    `json:"replicas"`
	Models         ModelCounts      `json:"models"`
	Unplaceable    []UnplaceableRow `json:"unplaceable"`
	IdleReplicas   []IdleRow        `json:"idle_replicas"`
	Silent         Silent           `json:"silent"`
	Backup         *Backup          `json:"backup"` // the newest good one that a peer took by its schedule; null: none is known
	Attention      []string         `json:"attention"`
}

// NodeCounts counts nodes by state.
type NodeCounts struct {
	Total       int `json:"total"`
	Ready       int `json:"ready"`
	Cordoned    int `json:"cordoned"`
	Draining    int `json:"draining"`
	Unreachable int `json:"unreachable"`
}

// ClassCounts counts the GPUs of one class; Total = Used + Free + Unhealthy + Withheld.
type ClassCounts struct {
	Class     string `json:"class"`
	Total     int    `json:"total"`
	Used      int    `json:"used"`
	Free      int    `json:"free"`
	Unhealthy int    `json:"unhealthy"`
	Withheld  int    `json:"withheld"` // on nodes that are cordoned, draining or unreachable
}

// FabricCounts counts whole nodes that are ready with every card healthy and free. Fabric nil is the row of nodes whose fabric is unknown.
type FabricCounts struct {
	Fabric           *string `json:"fabric"`
	Nodes            int     `json:"nodes"`
	FreeNodes        int     `json:"free_nodes"`
	LargestFreeBlock int     `json:"largest_free_block"` // most whole free nodes that one replica could take here
}

// ReplicaCounts counts replicas by state.
type ReplicaCounts struct {
	Ready    int `json:"ready"`
	Starting int `json:"starting"`
	Draining int `json:"draining"`
	Failed   int `json:"failed"`
}

// ModelCounts counts models: satisfied have at least min ready replicas.
type ModelCounts struct {
	Total     int `json:"total"`
	Satisfied int `json:"satisfied"`
	Short     int `json:"short"`
}

// UnplaceableRow is a model that is short, has nothing starting, and that the planner refuses.
type UnplaceableRow struct {
	Model        string  `json:"model"`
	SinceSeconds float64 `json:"since_seconds"`
	Reason       string  `json:"reason"`
	WouldHelp    string  `json:"would_help,omitempty"`
}

// IdleRow is a ready replica that has been quiet for at least settings.idle_threshold.
type IdleRow struct {
	ID           string  `json:"id"`
	Model        string  `json:"model"`
	IdleSeconds  float64 `json:"idle_seconds"`
	QuietSeconds float64 `json:"quiet_seconds"`
	AsOfSeconds  float64 `json:"as_of_seconds"`
	GPUs         int     `json:"gpus"`
}

// Silent names who has not been heard for longer than it should.
type Silent struct {
	Agents  []string `json:"agents"`
	Routers []string `json:"routers"`
}
