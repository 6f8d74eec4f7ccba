package status

import (
	"time"

	"berth/fleet"
	"berth/fleet/wire"
)

// Input is everything that status is computed from.
type Input struct {
	// The answer's frame: which cluster, seen from where, how fresh.
	Cluster      string
	Peer         string // that answers
	Leader       string // empty: none known
	Index        fleet.Index
	KnowledgeAge time.Duration
	CaughtUp     bool
	Now          fleet.Time // of the same kind of clock as the tables' times

	// Agreed state, each in key order.
	Settings fleet.Settings
	Frozen   *fleet.Freeze
	Models   []*fleet.Model
	Nodes    []*fleet.Node
	Replicas []*fleet.Replica

	// Observations of the leader. What is absent is unknown.
	Brake      *string                  // why the brake is on; nil: it is off
	Refusals   []Refused                // of the newest plan
	Idle       map[string]Idle          // by replica
	Heartbeats map[string]time.Duration // by node: age of the newest heartbeat
	Interval   time.Duration            // H, between two heartbeats of one agent
	Listening  time.Duration            // for how long the observer could have been told
	Routers    []Router
	Discovered []Discovered // machines that gossip alone knows
}

// Refused is a planner's refusal and for how long it has stood.
type Refused struct {
	fleet.Refusal
	Since time.Duration
}

// Idle is the ledger's word on one replica.
type Idle struct {
	Idle          time.Duration // since the newest use that any witness saw
	IdleKnown     bool
	Quiet         time.Duration // for how long it is certain that nobody used it
	QuietKnown    bool
	AsOf          time.Duration // age of that certainty
	AsOfKnown     bool
	InFlight      int
	InFlightKnown bool
	Why           string // why Quiet is unknown
}

// Router is a router's last word. Uses and Demand are everything that it has reported since its boot.
type Router struct {
	Report wire.Report
	Age    time.Duration // since its last report
}

// Discovered is a machine that gossip sees and that has not registered.
type Discovered struct {
	Name    string
	Address string
	Version string
	Reason  string
}

// tick is how often routers report and peers pass heartbeats on.
const tick = time.Second

// silentRouter is the age of a router's last report from which it is called silent.
const silentRouter = 5 * tick

// seconds is how API.md writes a duration that may be unknown.
func seconds(d time.Duration, known bool) float64 {
	if !known {
		return -1
	}
	return max(0, d).Seconds()
}

// age is how long ago t was; 0 for what is ahead of Now, because no age is negative.
func (in *Input) age(t fleet.Time) float64 {
	if t == 0 {
		return -1
	}
	return max(0, float64(in.Now-t)/1000)
}
