package shim

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"

	"berth/fleet"
	"berth/fleet/wire"
)

// Placeholders in the arguments and the environment of a Program; the shim fills them at each start of the engine.
const (
	// PlaceAPIKey becomes an API key made for this start. A Program that has it makes the door send that key to the
	// engine, so that a process on the node cannot go around the door.
	PlaceAPIKey = "{{api_key}}"
)

// Launch is everything a shim needs to run one shard. It is written to disk by what makes shims, and never changes.
type Launch struct {
	Order   wire.Order `json:"order"` // ActionRun
	Program Program    `json:"program"`
	Recipe  Recipe     `json:"recipe"`
	// Shim is the shim's number, from a counter on the node's disk. The Maker sets it.
	Shim uint64 `json:"shim"`
	// Bind is the host that the door listens on, and FirstPort to LastPort what it may take there; rank 0 only.
	Bind      string `json:"bind"`
	FirstPort int    `json:"first_port"`
	LastPort  int    `json:"last_port"`
	// InsecureNoTLS lets the door listen beyond loopback in the clear.
	InsecureNoTLS bool `json:"insecure_no_tls,omitempty"`
	// Logs is the folder of the engine's output; empty: it is kept in memory only. The Maker sets it; see [LogDir].
	Logs string `json:"logs,omitempty"`
	// Door, when set, is taken exactly: the door that this replica had under a shim that died.
	Door *fleet.Door `json:"door,omitempty"`
	// Restarts is how often in a row the engine was restarted before this shim, whose predecessor died.
	Restarts int `json:"restarts,omitempty"`
	// Exit is how it ended then.
	Exit *fleet.Exit `json:"exit,omitempty"`
	// Grace is what the engine has between SIGTERM and SIGKILL; 0 means 30 s.
	Grace fleet.Duration `json:"grace,omitempty"`
}

// Program is a resolved command line for one start of an engine, and where the engine will listen.
type Program struct {
	Args   []string `json:"args"` // Args[0] is the program's path
	Env    []string `json:"env,omitempty"`
	Dir    string   `json:"dir,omitempty"`
	Engine string   `json:"engine,omitempty"` // "host:port" on loopback, or "unix:" and a path; empty: a headless rank
	Master string   `json:"master,omitempty"` // where the ranks of a gang meet; reported by rank 0
}

// Recipe is how to find out that an engine serves. The steps are taken in this order, each until it holds: the process
// lives, Health answers 200, Token answers 200. An empty step is skipped; a headless rank has neither.
type Recipe struct {
	Health string `json:"health,omitempty"` // path of a GET
	Token  *Probe `json:"token,omitempty"`  // one real token
	// Every is the time between tries; 0 means 500 ms. Patience is how long one try may take; 0 means 2 min, since the
	// first request after a start can compile for a minute.
	Every    fleet.Duration `json:"every,omitempty"`
	Patience fleet.Duration `json:"patience,omitempty"`
	// Progress names counters of GET /metrics whose sum moves with every token. With it, an engine that has requests in
	// flight and moves no token for HangAfter (0 means 10 min) is ended as hanging.
	Progress  []string       `json:"progress,omitempty"`
	HangAfter fleet.Duration `json:"hang_after,omitempty"`
}

// Probe is one POST.
type Probe struct {
	Path string          `json:"path"`
	Body json.RawMessage `json:"body"`
}

// Order is what the agent tells a shim. Program comes with a run order of a new start number.
type Order struct {
	wire.Order
	Program *Program `json:"program,omitempty"`
}

// first is the order that the launch itself is.
func (l Launch) first() Order { return Order{Order: l.Order} }

// Gang says whether the shard is one of several: then only an order with a new start number starts its engine again.
func (l Launch) Gang() bool { return len(l.Order.Ranks) > 1 }

// Validate lists everything that is wrong with a launch.
func (l Launch) Validate() error {
	var bad []string
	check := func(ok bool, format string, args ...any) {
		if !ok {
			bad = append(bad, fmt.Sprintf(format, args...))
		}
	}
	check(l.Order.Action == wire.ActionRun, "its order is %q, not %q", l.Order.Action, wire.ActionRun)
	check(l.Order.Replica != "", "no replica is named")
	check(l.Order.Start > 0, "its start number is 0; they count from 1")
	check(len(l.Program.Args) > 0, "there is no command to run")
	check(l.Order.Rank == 0 || l.Door == nil, "rank %d has a door; only rank 0 has one", l.Order.Rank)
	check(l.Door == nil || l.Door.Key != "" && l.Door.Address != "", "the door that it is to keep has no address or no key")
	if l.Order.Rank == 0 {
		check(l.Program.Engine != "", "where the engine listens is not said")
		check(l.Bind != "", "the door has no address to bind")
		check(l.Door != nil || l.FirstPort >= 0 && l.LastPort >= l.FirstPort, "ports %d-%d are no range", l.FirstPort, l.LastPort)
	}
	if len(bad) == 0 {
		return nil
	}
	return fmt.Errorf("launch of %s: %s", l.Order.Replica, strings.Join(bad, "; "))
}

// LogDir is the folder below root for the output of one shard's engine, whichever shim ran it.
func LogDir(root, replica string, rank int) string {
	return filepath.Join(root, fmt.Sprintf("%s.%d", replica, rank))
}
