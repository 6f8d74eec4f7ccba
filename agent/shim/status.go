package shim

import "berth/fleet"

// Phase is where a shim is in its life.
type Phase string

// Phases. A shim goes starting → ready → draining → stopping → stopped; an engine that ends by itself leads back to
// starting (single-node), or to exited (a gang, which waits for a new start number).
const (
	Starting Phase = "starting" // the engine loads, or its restart waits for the back-off
	Ready    Phase = "ready"    // health and one real token
	Draining Phase = "draining" // told to stop; the engine serves what is in flight
	Stopping Phase = "stopping" // the engine was signalled
	Stopped  Phase = "stopped"  // nothing of the engine is left
	Exited   Phase = "exited"   // the engine of a gang's shard ended by itself, and nothing of it is left
	Failed   Phase = "failed"   // too many restarts in a row, and nothing of it is left
	Stuck    Phase = "stuck"    // something of the engine lives on under SIGKILL; port and claim stay taken
)

// Status is what a shim says of itself. It is a level, not a stream of events: counters (Engine, Restarts) tell what
// happened between two looks.
type Status struct {
	Version uint64 `json:"version"` // grows with every change
	Phase   Phase  `json:"phase"`
	Reason  string `json:"reason,omitempty"` // why it is exited, failed, stuck, stopping, or starting once more

	Shim   uint64      `json:"shim"`
	Engine uint64      `json:"engine"` // engine starts within this shim
	Order  fleet.Index `json:"order"`  // the newest order taken; the one that all of this answers
	Start  uint64      `json:"start"`  // start number of the newest run order

	Door   *fleet.Door `json:"door,omitempty"`   // rank 0
	Master string      `json:"master,omitempty"` // of this start; rank 0 of a gang
	// Restarts counts in a row: a run of ten minutes begins anew.
	Restarts int         `json:"restarts"`
	Exit     *fleet.Exit `json:"exit,omitempty"` // the last end of the engine that was not ordered

	// Withdrawn says that Order was a conditional drain and found the door's mark changed: nothing was done.
	Withdrawn bool `json:"withdrawn,omitempty"`
	// DoorShut says that the door is shut and nothing is in flight behind it, or what is will be cut.
	DoorShut bool `json:"door_shut,omitempty"`
	// Cut is how many requests the deadline of a drain cut.
	Cut int `json:"cut,omitempty"`
	// Released says that the cards were seen to be empty after the end. Where the shim cannot look (CardsEmpty is nil),
	// the agent does, and this stays false.
	Released bool `json:"released,omitempty"`
	// StartingAge is for how long the engine has been loading, in seconds; only in phase starting with an engine alive.
	StartingAge *float64 `json:"starting_age_seconds,omitempty"`
}

// Ended says that nothing of the engine is left and only another order could start it again.
func (s Status) Ended() bool {
	return s.Phase == Stopped || s.Phase == Exited || s.Phase == Failed
}
