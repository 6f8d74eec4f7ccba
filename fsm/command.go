package fsm

import (
	"berth/fleet"
	"berth/fleet/wire"
)

// Meta travels with every command. A proposer stamps it, because Apply has no clock and does not know who asked.
type Meta struct {
	Request string     `json:"request,omitempty"` // request id, see RequestID; empty: not remembered
	At      fleet.Time `json:"at,omitzero"`       // when it was proposed, by the proposer's clock
	By      string     `json:"by,omitempty"`      // who asked
	Level   int        `json:"level"`             // the level that the command needs; Encode raises it to what its kind needs
}

// Command is one change of the replicated state. Its kind is its name in the log for ever: a kind is never reused, and a retired one stays in
// the table as a tombstone.
type Command interface{ Kind() string }

// ClusterCreate gives the cluster its identity. It is the first command; nothing else is accepted before it.
type ClusterCreate struct {
	ID string `json:"id"`
}

// ServerAnnounce records where a peer answers and which levels it understands.
type ServerAnnounce struct {
	Server fleet.Server `json:"server"`
}

// ServerForget removes a peer that has left the configuration, so that its level no longer holds the cluster back.
type ServerForget struct {
	ID string `json:"id"`
}

// LevelRaise raises the replicated level; refused while a known server does not understand it.
type LevelRaise struct {
	Level int `json:"level"`
}

// ModelApply replaces the whole spec of a model, or creates it. IfMatch, when set, must be the model's Changed index; a zero index says that
// the model must not exist yet.
type ModelApply struct {
	Spec    fleet.ModelSpec `json:"spec"`
	IfMatch *fleet.Index    `json:"if_match,omitempty"`
}

// ModelScale sets the least and the wanted number of replicas, and raises the greatest number when that is lower.
type ModelScale struct {
	Model    string `json:"model"`
	Replicas int    `json:"replicas"`
}

// RolloutPause stops a model's rollout where it is, or lets it go on. What is missing is placed all the same.
type RolloutPause struct {
	Model  string `json:"model"`
	Paused bool   `json:"paused"`
}

// ModelDelete marks a model for removal; its row goes with its last replica.
type ModelDelete struct {
	Model   string       `json:"model"`
	IfMatch *fleet.Index `json:"if_match,omitempty"`
}

// NodeRegister is what an agent says of itself and of everything that runs on its machine. It is an observation and refused only when it is
// not this machine that speaks, or an older life of it.
type NodeRegister struct {
	Registration wire.Registration `json:"registration"`
}

// NodeAdmin cordons a node or makes it schedulable again.
type NodeAdmin struct {
	Node   string      `json:"node"`
	Admin  fleet.Admin `json:"admin"`
	Reason string      `json:"reason,omitempty"`
}

// NodeDrain starts a drain of a node, or joins the one that is running.
type NodeDrain struct {
	Node     string         `json:"node"`
	Deadline fleet.Duration `json:"deadline"`
	Reason   string         `json:"reason,omitempty"`
}

// NodeDrainEnd ends a drain: done and timed_out leave the node cordoned, cancelled makes it schedulable.
type NodeDrainEnd struct {
	Node  string `json:"node"`
	State string `json:"state"`
}

// NodeLabel sets an operator's labels; a nil value takes the override away.
type NodeLabel struct {
	Node string             `json:"node"`
	Set  map[string]*string `json:"set"`
}

// NodeForget removes a node for good. It is an operator's word that the machine holds nothing any more, so it releases the node's claims.
type NodeForget struct {
	Node string `json:"node"`
}

// NodeLiveness marks the registered instance of a node unreachable. A node comes back by registering, never by this.
type NodeLiveness struct {
	Node        string `json:"node"`
	Instance    uint64 `json:"instance"`
	Unreachable bool   `json:"unreachable"`
	Reason      string `json:"reason,omitempty"`
}

// PlanApply is the planner's list of decisions; each item is applied or refused alone. Term is the term of the leader that planned, for readers
// of the log: raft itself lets no leader of an older term commit.
type PlanApply struct {
	Plan fleet.Plan `json:"plan"`
	Term uint64     `json:"term"`
}

// ReplicaTransitions is a batch of lifecycle reports from one instance of a node's agent; each item is accepted or refused alone.
type ReplicaTransitions struct {
	Node     string            `json:"node"`
	Instance uint64            `json:"instance"`
	Items    []wire.Transition `json:"items"`
}

// ReplicaStop drains one replica because an operator asked for it.
type ReplicaStop struct {
	Replica string `json:"replica"`
	Reason  string `json:"reason"`
}

// ReplicaRestart starts all ranks of a replica again because an operator asked for it; it does not count against max_restarts.
type ReplicaRestart struct {
	Replica string `json:"replica"`
	Reason  string `json:"reason"`
}

// ReplicaFail ends a replica as failed, for a reason that the leader found.
type ReplicaFail struct {
	Replica string `json:"replica"`
	Reason  string `json:"reason"`
}

// ReplicaWithdraw takes a conditional drain back, because the agent whose door is to decide on it is silent. It names the order, so that it takes back
// none that was given since.
type ReplicaWithdraw struct {
	Replica string      `json:"replica"`
	Order   fleet.Index `json:"order"`
	Reason  string      `json:"reason"`
}

// SettingsSet replaces the cluster-wide settings.
type SettingsSet struct {
	Settings fleet.Settings `json:"settings"`
}

// FreezeSet stops placement, eviction and unloading, or lets them go on when Freeze is nil.
type FreezeSet struct {
	Freeze *fleet.Freeze `json:"freeze"`
}

// EpochRaise starts a new epoch, so that every order given before is older than every order given after.
type EpochRaise struct {
	Epoch uint64 `json:"epoch"`
}

func (ClusterCreate) Kind() string      { return "cluster.create" }
func (ServerAnnounce) Kind() string     { return "server.announce" }
func (ServerForget) Kind() string       { return "server.forget" }
func (LevelRaise) Kind() string         { return "level.raise" }
func (ModelApply) Kind() string         { return "model.apply" }
func (ModelScale) Kind() string         { return "model.scale" }
func (RolloutPause) Kind() string       { return "rollout.pause" }
func (ModelDelete) Kind() string        { return "model.delete" }
func (NodeRegister) Kind() string       { return "node.register" }
func (NodeAdmin) Kind() string          { return "node.admin" }
func (NodeDrain) Kind() string          { return "node.drain" }
func (NodeDrainEnd) Kind() string       { return "node.drain.end" }
func (NodeLabel) Kind() string          { return "node.label" }
func (NodeForget) Kind() string         { return "node.forget" }
func (NodeLiveness) Kind() string       { return "node.liveness" }
func (PlanApply) Kind() string          { return "plan" }
func (ReplicaTransitions) Kind() string { return "replica.transitions" }
func (ReplicaStop) Kind() string        { return "replica.stop" }
func (ReplicaRestart) Kind() string     { return "replica.restart" }
func (ReplicaFail) Kind() string        { return "replica.fail" }
func (ReplicaWithdraw) Kind() string    { return "replica.withdraw" }
func (SettingsSet) Kind() string        { return "settings.set" }
func (FreezeSet) Kind() string          { return "freeze.set" }
func (EpochRaise) Kind() string         { return "epoch.raise" }
