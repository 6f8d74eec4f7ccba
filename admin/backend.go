package admin

import (
	"context"
	"io"
	"time"

	"berth/fleet"
	"berth/fleet/wire"
	"berth/fsm"
)

// Core is the replicated side of a peer: its state, and the way to change it.
type Core interface {
	ID() string
	State() *fsm.State
	// Propose commits a command. Only the leader can; elsewhere the error is fleet.NoLeader, and the API forwards the request before it gets here.
	Propose(ctx context.Context, meta fsm.Meta, cmd fsm.Command) (fsm.Outcome, error)
	Knowledge() Knowledge
	// Verify checks with a quorum that this peer leads, and waits until its state machine has applied what was committed before.
	Verify(ctx context.Context) error
	WaitApplied(ctx context.Context, index uint64) error
}

// Knowledge is how fresh a peer's answers are.
type Knowledge struct {
	Applied    uint64        // newest index that this peer's state machine has applied
	Commit     uint64        // newest commit index of the leader that this peer knows
	Age        time.Duration // of that pair; -1: unknown
	CaughtUp   bool          // the state machine has caught up at least once since its start
	Leader     string        // id of the leader; empty: none known
	LeaderHTTP string        // where the leader's API answers; empty: not known
	Term       uint64
	IsLeader   bool
}

// Board is the observed side: what agents and routers say, held in the leader's memory and passed on to the followers.
type Board interface {
	Heartbeat(wire.Heartbeat) wire.HeartbeatAnswer
	Answers(node string) (alive, sure bool)              // leader only: whether the registered life of a node must still be there; not sure: too early to say
	Relay(wire.Relay) (wire.RelayAnswer, error)          // leader only
	Report(wire.Report) (wire.ReportAnswer, error)       // leader only
	Observed() wire.Observed                             // the leader's own, or the newest that the leader passed on, with its age
	Brief(quiet time.Duration) wire.Observed             // Observed but for what grows with the fleet: of Idle only what was quiet for so long, or nothing
	ObservedAge() time.Duration                          // of Observed, at no cost; 0 at the leader, -1 when none was heard
	Refused() <-chan struct{}                            // closed when other models than now are refused a place
	Events(since uint64) ([]wire.Event, <-chan struct{}) // events after that sequence number, and a channel closed when there are more
}

// Members is the membership of the cluster.
type Members interface {
	Peers() []wire.PeerView
	// AddPeer takes what a peer says of itself (POST peers): one that is not in the configuration joins as a non-voter, and the row of its HTTP
	// address, level and version is brought up to date. HTTP may be empty when an operator adds a peer that has yet to announce itself.
	AddPeer(ctx context.Context, server fleet.Server) error
	// MovePeer gives a known peer another raft address. Without force the peer must answer there, and nobody in its name at the old one.
	MovePeer(ctx context.Context, id, raft string, force bool) error
	RemovePeer(ctx context.Context, id string) error
	PromotePeer(ctx context.Context, id string) error
	DemotePeer(ctx context.Context, id string) error
	TransferLeadership(ctx context.Context, to string) error
}

// Snapshots saves and restores the whole state.
type Snapshots interface {
	RestoreSnapshot(ctx context.Context, file io.Reader, force bool) (wire.SnapshotInfo, error)
}

// Planner runs the pure planner for explanations and dry runs; it changes nothing.
type Planner interface {
	// DryRun plans as if these specs had been applied.
	DryRun(specs []fleet.ModelSpec) (fleet.Plan, error)
	// Fits says whether the registered nodes, whatever their state, could ever hold the spec; if not, err names the nearest shape that could.
	Fits(spec fleet.ModelSpec) error
	ExplainModel(name string) (fleet.Refusal, error)
	ExplainNode(name string) (string, error)
	// Rollout says where a model's rollout stands; false when there is no such model.
	Rollout(model string) (wire.RolloutView, bool)
}
