package fleet

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
)

// SpecVersion is the version of the model file that this release reads and writes.
const SpecVersion = 1

// ModelSpec is the model file: what to serve, with which engine, on which GPUs, between how many replicas. JSON and YAML use the same names.
type ModelSpec struct {
	Version   int               `json:"version"`
	Kind      string            `json:"kind"` // always "model"
	Name      string            `json:"name"` // opaque, case kept; what clients send
	Aliases   []string          `json:"aliases,omitempty"`
	Labels    map[string]string `json:"labels,omitempty"`
	Engine    EngineSpec        `json:"engine"`
	Placement PlacementSpec     `json:"placement"`
	Replicas  ReplicaCount      `json:"replicas"`
	Priority  int               `json:"priority"` // 0 to 100; higher goes first
	Pin       bool              `json:"pin"`      // no eviction, preemption or rebalance by others
	Idle      IdleSpec          `json:"idle"`
	Serve     ServeSpec         `json:"serve"`
	Start     StartSpec         `json:"start"`
	Drain     DrainSpec         `json:"drain"`
	Rollout   RolloutSpec       `json:"rollout"`
}

// EngineSpec says what runs. Which program a driver is, only the agent's configuration says.
type EngineSpec struct {
	Driver  string   `json:"driver"`            // vllm, sglang, llamacpp, sim, command
	Version string   `json:"version,omitempty"` // constraint such as ">=0.18"; nodes without it are not feasible
	Weights string   `json:"weights"`           // hub name, or a path under a node's model root
	Args    []string `json:"args,omitempty"`    // only what the node's allow-list admits
}

// PlacementSpec says on what a replica fits. Either GPUsPerNode (whole cards) or GPUShare (part of one card) is set.
type PlacementSpec struct {
	Nodes       int               `json:"nodes"`
	GPUsPerNode int               `json:"gpus_per_node,omitempty"`
	GPUShare    Bytes             `json:"gpu_share,omitempty"`
	Classes     []string          `json:"classes,omitempty"`    // in order of preference; never mixed in a replica; empty: any
	GPUMemory   Bytes             `json:"gpu_memory,omitempty"` // least memory of each card
	CPUs        int               `json:"cpus,omitempty"`       // a node
	Memory      Bytes             `json:"memory,omitempty"`     // host memory a node
	Require     map[string]string `json:"require,omitempty"`
	Prefer      map[string]string `json:"prefer,omitempty"`
	Spread      []string          `json:"spread,omitempty"` // "node" or a label such as "rack"
}

// GPUs returns how many whole cards one replica takes over all its nodes; 0 for a share.
func (p PlacementSpec) GPUs() int { return p.Nodes * p.GPUsPerNode }

// ReplicaCount bounds the number of replicas.
type ReplicaCount struct {
	Min int `json:"min"`
	Max int `json:"max"`
}

// IdleSpec says when a replica that nobody asks for is unloaded; UnloadAfter 0 means never.
type IdleSpec struct {
	UnloadAfter  Duration `json:"unload_after,omitempty"`
	MinResidence Duration `json:"min_residence"`
}

// ServeSpec is the router's part: which replica gets a request, and how many wait.
type ServeSpec struct {
	Policy      string    `json:"policy"`                  // ttft, least-loaded, prefix-bounded, round-robin
	MaxInFlight int       `json:"max_in_flight,omitempty"` // a replica; 0: no limit
	Queue       QueueSpec `json:"queue"`
}

// QueueSpec bounds the requests that wait at a router for a replica of the model.
type QueueSpec struct {
	Limit   int      `json:"limit"`
	Timeout Duration `json:"timeout"`
}

// StartSpec bounds a start; the timeout is extended while loading makes progress.
type StartSpec struct {
	Timeout     Duration `json:"timeout"`
	MaxRestarts int      `json:"max_restarts"` // in a row
}

// DrainSpec bounds a stop: the door shuts after Minimum, and at Deadline what is still in flight is cut.
type DrainSpec struct {
	Deadline Duration `json:"deadline"`
	Minimum  Duration `json:"minimum"`
}

// RolloutSpec bounds how far the number of replicas strays from the wanted one while a new generation replaces an old one.
type RolloutSpec struct {
	MaxSurge       int `json:"max_surge"`
	MaxUnavailable int `json:"max_unavailable"`
}

// DefaultedSpec returns the spec of a model file that says nothing: what a field has when the file leaves it out. A parser fills it before it decodes.
func DefaultedSpec() ModelSpec {
	return ModelSpec{
		Placement: PlacementSpec{Nodes: 1},
		Replicas:  ReplicaCount{Min: 1, Max: 1},
		Priority:  50,
		Idle:      IdleSpec{MinResidence: Duration(10 * minute)},
		Serve:     ServeSpec{Policy: "ttft", Queue: QueueSpec{Limit: 200, Timeout: Duration(2 * minute)}},
		Start:     StartSpec{Timeout: Duration(30 * minute), MaxRestarts: 5},
		Drain:     DrainSpec{Deadline: Duration(10 * minute), Minimum: Duration(5 * second)},
		Rollout:   RolloutSpec{MaxSurge: 1},
	}
}

const (
	second = 1_000_000_000
	minute = 60 * second
)

// Hash identifies a spec: equal specs have equal hashes. It is the SHA-256 of the spec's JSON, whose map keys encoding/json sorts.
func (s ModelSpec) Hash() string { return hashJSON(s) }

// RunHash identifies the part of a spec that a running engine depends on: name, aliases, engine and placement. A change of it raises the
// model's generation and replaces its replicas; any other change takes effect on the replicas that run. It also tells, after a restore,
// which engine found running belongs to which model.
func (s ModelSpec) RunHash() string {
	return hashJSON(struct {
		Name      string
		Aliases   []string
		Engine    EngineSpec
		Placement PlacementSpec
	}{s.Name, s.Aliases, s.Engine, s.Placement})
}

func hashJSON(v any) string {
	data, err := json.Marshal(v)
	if err != nil {
		panic("fleet: a spec that does not marshal: " + err.Error()) // only strings, numbers and lists: cannot happen
	}
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:16])
}

// Model is the desired state of one model as the cluster has agreed on it.
type Model struct {
	Spec       ModelSpec `json:"spec"`
	Generation uint64    `json:"generation"` // raised when RunHash changes
	Want       int       `json:"want"`       // replicas wanted now: min, or more after a wake
	Deleting   bool      `json:"deleting,omitempty"`
	Paused     bool      `json:"paused,omitempty"` // its rollout goes no further until it is resumed
	Created    Index     `json:"created"`
	Changed    Index     `json:"changed"` // of the last change; the value for If-Match
	CreatedAt  Time      `json:"created_at"`
	ChangedAt  Time      `json:"changed_at"`
}

// Name returns the model's name.
func (m *Model) Name() string { return m.Spec.Name }
