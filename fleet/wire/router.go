package wire

import "berth/fleet"

// Table is what routers route by: GET table (blocking). Keys are in it, so only routers get it. Its Index grows with what it says; a router
// takes no table older than the one on its disk.
type Table struct {
	Version int          `json:"version"`
	Cluster string       `json:"cluster"`
	Index   fleet.Index  `json:"index"`
	Models  []TableModel `json:"models"`
}

// TableModel is one model of the table; a model with no replica is there too.
type TableModel struct {
	Name       string          `json:"name"`
	Aliases    []string        `json:"aliases,omitempty"`
	Generation uint64          `json:"generation"`
	Serve      fleet.ServeSpec `json:"serve"`
	Max        int             `json:"max"`
	Created    fleet.Time      `json:"created"`
	Endpoints  []Endpoint      `json:"endpoints,omitempty"`
	// Cannot says why a model without a replica cannot be started now.
	Cannot string `json:"cannot,omitempty"`
}

// Endpoint is one replica that takes requests.
type Endpoint struct {
	Replica    string             `json:"replica"`
	Node       string             `json:"node"`
	Generation uint64             `json:"generation"`
	Address    string             `json:"address"` // of the door, host:port
	Key        string             `json:"key"`
	State      fleet.ReplicaState `json:"state"`          // ready, or draining with Conditional
	Lost       bool               `json:"lost,omitempty"` // its node is unreachable: only when no unmarked replica can take the request
	// Conditional: it is being unloaded for quiet; use it only if it is the one there is, and it will stay.
	Conditional bool `json:"conditional,omitempty"`
}

// Report is what a router saw used: POST routers/{id}/report, once a tick. An entry says "used"; a missing entry says nothing.
type Report struct {
	Version int               `json:"version"`
	Router  string            `json:"router"`
	Boot    uint64            `json:"boot"` // counter on the router's disk
	Seq     uint64            `json:"seq"`
	Release string            `json:"release,omitempty"`
	Address string            `json:"address,omitempty"` // for clients
	Admin   string            `json:"admin,omitempty"`   // for operators
	Table   fleet.Index       `json:"table"`             // index of the table that it routes by; zero: none yet
	All     bool              `json:"all,omitempty"`     // this report holds everything the router knows
	Uses    map[string]Use    `json:"uses,omitempty"`    // by replica
	Demand  map[string]Demand `json:"demand,omitempty"`  // by model
}

// Use is how long ago a replica was last used, as this router saw it, and what is in flight there now.
type Use struct {
	Age      float64 `json:"age_seconds"`
	InFlight int     `json:"in_flight,omitempty"`
}

// ReportAnswer answers a Report.
type ReportAnswer struct {
	Term    uint64 `json:"term"`
	Ack     uint64 `json:"ack"` // newest sequence that this term's leader has
	SendAll bool   `json:"send_all,omitempty"`
}

// Demand is what waits at a router for a model that has no ready replica.
type Demand struct {
	Waiting int     `json:"waiting"`
	Oldest  float64 `json:"oldest_seconds"`
}
