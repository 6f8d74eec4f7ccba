package fleet

import (
	"fmt"
	"slices"
	"strings"
)

// Drivers lists the engine drivers of this release.
func Drivers() []string { return []string{"vllm", "sglang", "llamacpp", "sim", "command"} }

// Policies lists the routing policies of this release.
func Policies() []string { return []string{"ttft", "least-loaded", "prefix-bounded", "round-robin"} }

// Check returns one InvalidSpec error that lists everything wrong with the spec, or nil.
func (s ModelSpec) Check() error {
	c := specCheck{}
	c.identity(s)
	c.engine(s.Engine)
	c.placement(s.Placement)
	c.counts(s)
	c.times(s)
	if len(c.problems) == 0 {
		return nil
	}
	return Errorf(InvalidSpec, "model %s: %s", s.Name, strings.Join(c.problems, "; "))
}

type specCheck struct{ problems []string }

func (c *specCheck) require(ok bool, format string, args ...any) {
	if !ok {
		c.problems = append(c.problems, fmt.Sprintf(format, args...))
	}
}

func (c *specCheck) identity(s ModelSpec) {
	c.require(s.Version == SpecVersion, "version is %d; this release reads version: %d", s.Version, SpecVersion)
	c.require(s.Kind == "model", "kind is %q; write kind: model", s.Kind)
	if err := CheckModelName(s.Name); err != nil {
		c.require(false, "%s", err)
	}
	seen := map[string]bool{s.Name: true}
	for _, a := range s.Aliases {
		if err := CheckModelName(a); err != nil {
			c.require(false, "alias: %s", err)
		}
		c.require(!seen[a], "the alias %q is there twice, or is the name itself", a)
		seen[a] = true
	}
}

func (c *specCheck) engine(e EngineSpec) {
	c.require(slices.Contains(Drivers(), e.Driver), "engine.driver is %q; use one of %s", e.Driver, strings.Join(Drivers(), ", "))
	c.require(e.Weights != "" || e.Driver == "command", "engine.weights is empty; name a hub model or a path under a node's model root")
	c.require(!strings.HasPrefix(e.Weights, "-"), "engine.weights %q starts with a dash, which an engine would read as a flag", e.Weights)
	for _, seg := range strings.Split(e.Weights, "/") {
		c.require(seg != "..", "engine.weights %q leaves its folder with a .. segment", e.Weights)
	}
	if e.Version != "" {
		if _, err := ParseConstraint(e.Version); err != nil {
			c.require(false, "engine.version: %s", err)
		}
	}
}

func (c *specCheck) placement(p PlacementSpec) {
	c.require(p.Nodes >= 1 && p.Nodes <= 64, "placement.nodes is %d; use 1 to 64", p.Nodes)
	c.require(p.GPUsPerNode >= 0 && p.GPUsPerNode <= 64, "placement.gpus_per_node is %d; use 1 to 64", p.GPUsPerNode)
	c.require(p.GPUShare >= 0 && p.GPUMemory >= 0 && p.Memory >= 0, "placement: a size is negative")
	c.require(p.GPUsPerNode == 0 || p.GPUShare == 0, "placement has both gpus_per_node and gpu_share; use whole cards or part of one")
	c.require(p.GPUsPerNode != 0 || p.GPUShare != 0, "placement has neither gpus_per_node nor gpu_share; say how many whole cards a node, or how much of one")
	c.require(p.GPUShare == 0 || p.Nodes == 1, "placement.gpu_share needs nodes: 1; a replica over several nodes takes whole cards")
	c.require(p.CPUs >= 0, "placement.cpus is %d; it cannot be negative", p.CPUs)
	for i, class := range p.Classes {
		c.require(class != "" && !slices.Contains(p.Classes[:i], class), "placement.classes names %q twice, or an empty class", class)
	}
}

func (c *specCheck) counts(s ModelSpec) {
	r := s.Replicas
	c.require(r.Min >= 0 && r.Max >= 1 && r.Min <= r.Max && r.Max <= 10_000, "replicas: {min: %d, max: %d}; min is 0 or more, max at least 1, at least min and at most 10000", r.Min, r.Max)
	c.require(s.Priority >= 0 && s.Priority <= 100, "priority is %d; use 0 to 100", s.Priority)
	c.require(s.Idle.UnloadAfter == 0 || r.Min == 0, "idle.unload_after needs replicas.min: 0, not %d", r.Min)
	c.require(slices.Contains(Policies(), s.Serve.Policy), "serve.policy is %q; use one of %s", s.Serve.Policy, strings.Join(Policies(), ", "))
	c.require(s.Serve.MaxInFlight >= 0 && s.Serve.Queue.Limit >= 0, "serve: max_in_flight and queue.limit cannot be negative")
	c.require(s.Start.MaxRestarts >= 0, "start.max_restarts is %d; it cannot be negative", s.Start.MaxRestarts)
	ro := s.Rollout
	c.require(ro.MaxSurge >= 0 && ro.MaxUnavailable >= 0 && ro.MaxSurge+ro.MaxUnavailable > 0,
		"rollout: {max_surge: %d, max_unavailable: %d}; at least one must be 1 or more, else nothing can be replaced", ro.MaxSurge, ro.MaxUnavailable)
}

func (c *specCheck) times(s ModelSpec) {
	c.require(s.Start.Timeout > 0, "start.timeout is 0s; give the engine time to load, for example 30m")
	c.require(s.Drain.Deadline > 0, "drain.deadline is 0s; give requests in flight time to end, for example 10m")
	c.require(s.Drain.Minimum <= s.Drain.Deadline, "drain.minimum %s is longer than drain.deadline %s", s.Drain.Minimum, s.Drain.Deadline)
	c.require(s.Serve.Queue.Timeout > 0 || s.Serve.Queue.Limit == 0, "serve.queue.timeout is 0s; say how long a request may wait, for example 2m")
}
