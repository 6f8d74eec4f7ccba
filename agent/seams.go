package agent

import (
	"context"
	"time"

	"berth/agent/shim"
	"berth/fleet"
	"berth/fleet/wire"
)

// Inventory measures the machine. Each call may be slow or hang for as long as its context lets it; what the heartbeat waits for is never one
// of these.
type Inventory interface {
	// Measure gives everything that is there now. What cannot be measured is unknown, never left at a good value. An error means that
	// nothing could be measured: the agent keeps what it had.
	Measure(ctx context.Context) (fleet.Inventory, error)
	// Free says whether the cards' own process lists (for a share: the cards' memory) prove that the claims are empty. A card that cannot be
	// asked is an error, and not free.
	Free(ctx context.Context, claims []fleet.Claim) (bool, error)
	// Load gives what each card does right now; what cannot be measured is left out.
	Load(ctx context.Context) []wire.GPULoad
}

// Driver turns orders for one kind of engine into command lines. It is made with its EngineConfig by cmd or dev.
type Driver interface {
	// Name is what a model file calls it: vllm, sglang, llamacpp, sim, command.
	Name() string
	// Offer says what this node can run with it; false: nothing, because the program is not there. It may start the program to ask for its
	// version, and is called outside of every loop that must not wait. Hub and AllowArgs are those of the configuration.
	Offer(ctx context.Context) (fleet.EngineOffer, bool)
	// Launch gives the command line of one start of one shard and how to find out that it serves. It is called again for each new start
	// number of a gang. The model's args were held against the allow-list and its weights were resolved before. An error is a reason for
	// which the shard cannot run here; an operator reads it.
	Launch(in LaunchInput) (shim.Program, shim.Recipe, error)
}

// LaunchInput is everything that a driver may build a command line from.
type LaunchInput struct {
	Order  wire.Order // ActionRun; its Spec, Rank, Start and Claims
	Engine EngineConfig
	// Weights is the model's weights, resolved: an absolute path without symlinks below one of ModelRoots, or a hub name as the model file
	// has it (only with Engine.Hub). Empty only where the spec's is.
	Weights    string
	ModelRoots []string
	// GPUs are the indices of the order's claims on this machine, in the order of the claims, as they are at this moment.
	GPUs []int
	// All is every card of the machine, for memory and UUIDs.
	All []fleet.GPU
	// Port is a free TCP port on 127.0.0.1 for an engine that cannot listen on a unix socket; the same for each start under one shim.
	Port int
	// Ports are four more free ports on BindHost for what else the engine opens to itself and to the other ranks (NCCL, ZeroMQ, …).
	Ports []int
	// BindHost is this node's address for engines: what the ranks' own traffic binds and is reached at.
	BindHost string
	// Hosts are the addresses of all ranks, in order of rank, this one included. One entry for a single-node replica.
	Hosts []string
	// Master is host:port where the ranks meet, the same for all: rank 0 listens there. Empty for a single-node replica. A driver gives it
	// back as Program.Master.
	Master string
	// Sockets is a folder (0700) for unix sockets, short enough for the limit of 107 bytes on a socket's path.
	Sockets string
}

// EngineConfig is one entry of the agent file's engines: which program a driver is, and what a model may ask of it.
type EngineConfig struct {
	Command   []string // program and first arguments; empty: the driver looks in PATH
	AllowArgs []string // flags that a model may pass, as "--max-model-len"; "*" admits any
	Hub       bool     // may fetch weights by hub name
	Version   string   // overrides what the program says of itself
}

// Peers is the way to the control plane; any peer will do. The client moves to the next peer by itself when one fails.
type Peers interface {
	Register(ctx context.Context, r wire.Registration) (wire.Registered, error)
	// Orders waits for orders newer than after, for at most wait.
	Orders(ctx context.Context, node string, after fleet.Index, wait time.Duration) (wire.Orders, error)
	Transitions(ctx context.Context, node string, t wire.Transitions) (wire.TransitionResults, error)
	Heartbeat(ctx context.Context, h wire.Heartbeat) (wire.HeartbeatAnswer, error)
}

// Addresses is what a client of the peers may also be: one that can be told where the peers are.
type Addresses interface {
	SetAddrs(addrs []string) error
}
