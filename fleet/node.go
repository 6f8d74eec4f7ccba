package fleet

// Health is the verdict on one GPU.
type Health string

// Verdicts. What cannot be measured is unknown, and unknown is not free.
const (
	Healthy       Health = "healthy"
	Unhealthy     Health = "unhealthy"
	HealthUnknown Health = "unknown"
)

// GPU is one card as its node's agent measured it.
type GPU struct {
	UUID   string `json:"uuid"`
	Index  int    `json:"index"` // at the moment of measuring; an engine is launched by the index resolved then, never by a stored one
	Class  string `json:"class"` // for example h100-sxm-80gb
	Name   string `json:"name,omitempty"`
	Memory Bytes  `json:"memory"`
	Health Health `json:"health"`
	Reason string `json:"reason,omitempty"` // why it is not healthy
	// Foreign says that a process which Berth did not start holds memory of the card.
	Foreign bool `json:"foreign,omitempty"`
}

// Inventory is everything that a node's agent measured of its machine. It replaces the one before; it is never added to it.
type Inventory struct {
	Source string `json:"source"` // nvml, nvidia-smi, file, none
	Note   string `json:"note,omitempty"`
	Fabric string `json:"fabric,omitempty"` // interconnect domain; empty is unknown, and unknown joins nothing
	GPUs   []GPU  `json:"gpus,omitempty"`
	CPUs   int    `json:"cpus"`
	Memory Bytes  `json:"memory"`
	Driver string `json:"driver,omitempty"` // GPU driver version
}

// EngineOffer is one engine that a node's configuration offers.
type EngineOffer struct {
	Driver    string   `json:"driver"`
	Version   string   `json:"version,omitempty"` // empty: unknown
	Hub       bool     `json:"hub,omitempty"`     // may fetch weights by hub name
	SpanNodes bool     `json:"span_nodes,omitempty"`
	AllowArgs []string `json:"allow_args,omitempty"` // flags that a model may pass; "*" admits any
}

// Admin is what an operator wants of a node; liveness is kept apart from it.
type Admin string

// Admin intents.
const (
	Schedulable Admin = ""
	Cordoned    Admin = "cordoned"
	Draining    Admin = "draining"
)

// Node is one GPU machine as the cluster knows it. Name is its key; ID proves that it is the same machine.
type Node struct {
	Name          string            `json:"name"`
	ID            string            `json:"id"`       // made once, kept on the node's disk
	Instance      uint64            `json:"instance"` // counts the agent's starts, on disk, from 1; 0: it has not registered since a restore
	Address       string            `json:"address"`  // host:port of the agent
	EngineAddress string            `json:"engine_address,omitempty"`
	Version       string            `json:"version,omitempty"`
	Labels        map[string]string `json:"labels,omitempty"`    // from the agent's file
	Overrides     map[string]string `json:"overrides,omitempty"` // set by an operator; they win
	Inventory     Inventory         `json:"inventory"`
	Engines       []EngineOffer     `json:"engines,omitempty"`
	ModelRoots    []string          `json:"model_roots,omitempty"`
	Admin         Admin             `json:"admin,omitempty"`
	AdminReason   string            `json:"admin_reason,omitempty"`
	AdminAt       Time              `json:"admin_at,omitzero"`
	Drain         *NodeDrain        `json:"drain,omitempty"`
	Unreachable   bool              `json:"unreachable,omitempty"`
	// UnreachableReason is what the leader missed, and UnreachableAt when it gave the node up.
	UnreachableReason string      `json:"unreachable_reason,omitempty"`
	UnreachableAt     Time        `json:"unreachable_at,omitzero"`
	Unmanaged         []Unmanaged `json:"unmanaged,omitempty"`
	RegisteredAt      Time        `json:"registered_at,omitzero"`
	Changed           Index       `json:"changed"`
}

// NodeDrain is one running or ended drain of a node.
type NodeDrain struct {
	Started  Index    `json:"started"`
	Deadline Duration `json:"deadline"`
	StartAt  Time     `json:"start_at"`
	State    string   `json:"state"` // running, done, timed_out, cancelled
}

// Unmanaged is something on a node's cards that Berth cannot match to a replica; it holds them and is never killed without an order.
type Unmanaged struct {
	What string   `json:"what"`
	PID  int      `json:"pid,omitempty"`
	GPUs []string `json:"gpus,omitempty"` // UUIDs
}

// Awaited says whether the node's agent has not registered since a restore: nothing is known then of what runs there. Agents count their starts from 1.
func (n *Node) Awaited() bool { return n.Instance == 0 }

// Label returns the value of a label, an operator's override first; "fabric" and "class" are labels like any other here.
func (n *Node) Label(key string) (string, bool) {
	if v, ok := n.Overrides[key]; ok {
		return v, true
	}
	v, ok := n.Labels[key]
	return v, ok
}

// Fabric returns the node's interconnect domain, a label before what was detected; "" is unknown.
func (n *Node) Fabric() string {
	if v, ok := n.Label("fabric"); ok {
		return v
	}
	return n.Inventory.Fabric
}

// Class returns the class of one of the node's GPUs, a label before what was detected.
func (n *Node) Class(g GPU) string {
	if v, ok := n.Label("class"); ok && v != "" {
		return v
	}
	return g.Class
}

// NodeState is the one word that operators see of a node.
type NodeState string

// Node states.
const (
	NodeReady       NodeState = "ready"
	NodeCordoned    NodeState = "cordoned"
	NodeDraining    NodeState = "draining"
	NodeUnreachable NodeState = "unreachable"
)

// State joins admin intent and liveness into the view.
func (n *Node) State() NodeState {
	switch {
	case n.Unreachable:
		return NodeUnreachable
	case n.Admin == Cordoned:
		return NodeCordoned
	case n.Admin == Draining:
		return NodeDraining
	default:
		return NodeReady
	}
}

// GPU returns the card with that UUID, or false when the node's last inventory has none.
func (n *Node) GPU(uuid string) (GPU, bool) {
	for _, g := range n.Inventory.GPUs {
		if g.UUID == uuid {
			return g, true
		}
	}
	return GPU{}, false
}

// Offer returns the node's offer for a driver, or false.
func (n *Node) Offer(driver string) (EngineOffer, bool) {
	for _, o := range n.Engines {
		if o.Driver == driver {
			return o, true
		}
	}
	return EngineOffer{}, false
}
