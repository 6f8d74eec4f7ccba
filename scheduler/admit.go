package scheduler

import (
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"berth/fleet"
	"berth/scheduler/capacity"
)

// admission answers whether a node may hold a shard of one spec, whatever is left of its cards, CPUs and memory.
type admission struct {
	spec    *fleet.ModelSpec
	version fleet.Constraint
	require []string // sorted keys, so that equal inputs give equal reasons
	flags   []string // of the engine's arguments
	backoff Backoff
}

func newAdmission(spec *fleet.ModelSpec, b Backoff) *admission {
	a := &admission{spec: spec, backoff: b, require: slices.Sorted(maps.Keys(spec.Placement.Require)), flags: flagsOf(spec.Engine.Args)}
	if spec.Engine.Version != "" {
		a.version, _ = fleet.ParseConstraint(spec.Engine.Version) // a spec that was applied parses
	}
	return a
}

// flagsOf returns the flags among arguments: "--max-model-len" of "--max-model-len=32768" and of "--max-model-len", "32768".
func flagsOf(args []string) []string {
	var flags []string
	for _, arg := range args {
		if strings.HasPrefix(arg, "-") {
			flag, _, _ := strings.Cut(arg, "=")
			flags = append(flags, flag)
		}
	}
	return flags
}

// refuse returns why the host takes no shard of the spec now, or "". The reasons are phrases that follow a number of nodes: "3 cordoned".
func (a *admission) refuse(h *capacity.Host) string {
	if why := a.ever(h.Node); why != "" {
		return why
	}
	if !h.Ready {
		return notReady(h.Node)
	}
	return a.heldBack(h.Node.Name)
}

// notReady is what keeps a node from taking anything.
func notReady(n *fleet.Node) string {
	if n.State() == fleet.NodeReady {
		return "not registered again since the restore"
	}
	return string(n.State())
}

func (a *admission) heldBack(node string) string {
	switch {
	case a.backoff.Nodes[node].For > 0:
		return "set aside after failures"
	case a.backoff.Pairs[Pair{a.spec.Name, node}].For > 0:
		return "in back-off after this model failed there"
	default:
		return ""
	}
}

// ever returns why the node could not hold a shard of the spec even if it stood empty and ready, or "".
func (a *admission) ever(n *fleet.Node) string {
	for _, key := range a.require {
		want := a.spec.Placement.Require[key]
		if have, ok := n.Label(key); !ok || have != want {
			return fmt.Sprintf("without label %s=%s", key, want)
		}
	}
	if why := a.engine(n); why != "" {
		return why
	}
	p := &a.spec.Placement
	switch {
	case n.Inventory.CPUs < p.CPUs:
		return fmt.Sprintf("with fewer than %d CPUs", p.CPUs)
	case n.Inventory.Memory < p.Memory:
		return fmt.Sprintf("with less than %s host memory", p.Memory)
	case p.Nodes > 1 && n.Fabric() == "":
		return "in no known fabric"
	}
	return ""
}

func (a *admission) engine(n *fleet.Node) string {
	e := &a.spec.Engine
	offer, ok := n.Offer(e.Driver)
	switch {
	case !ok:
		return "without " + e.Driver
	case a.version != nil && !a.version.Admits(offer.Version):
		return fmt.Sprintf("without %s %s", e.Driver, e.Version)
	case a.spec.Placement.Nodes > 1 && !offer.SpanNodes:
		return fmt.Sprintf("whose %s cannot span nodes", e.Driver)
	}
	for _, flag := range a.flags {
		if !slices.Contains(offer.AllowArgs, flag) && !slices.Contains(offer.AllowArgs, "*") {
			return fmt.Sprintf("that do not allow %s %s", e.Driver, flag)
		}
	}
	return a.weights(n, offer)
}

// weights says whether the node can have the weights: a path must lie under a model root, a hub name needs an engine that may fetch it. The
// simulated engine loads none.
func (a *admission) weights(n *fleet.Node, offer fleet.EngineOffer) string {
	w := a.spec.Engine.Weights
	if w == "" || offer.Driver == "sim" {
		return ""
	}
	if !strings.HasPrefix(w, "/") {
		if !offer.Hub {
			return "that may not fetch from the hub"
		}
		return ""
	}
	for _, root := range n.ModelRoots {
		root = strings.TrimSuffix(path.Clean(root), "/") + "/"
		if strings.HasPrefix(path.Clean(w), root) {
			return ""
		}
	}
	return "without a model root for " + w
}
