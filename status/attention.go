package status

import (
	"fmt"
	"slices"
	"strings"

	"berth/fleet"
	"berth/fleet/wire"
)

// attention says, a line each, what a person has to look at; what comes first matters most. A model that cannot be placed is not in it: it has
// its own list and its own exit code. Nor is a freeze, which a person has ordered.
func (in *Input) attention(t tally, s wire.Status) []string {
	lines := make([]string, 0)
	add := func(format string, args ...any) { lines = append(lines, fmt.Sprintf(format, args...)) }
	if in.Leader == "" {
		add("no leader is known; nothing can be changed")
	}
	if !in.CaughtUp {
		add("this peer has not caught up; what it shows may be old")
	}
	if in.Brake != nil {
		add("the brake is on: %s", *in.Brake)
	}
	for _, n := range in.Nodes {
		lines = append(lines, nodeAttention(n, slices.Contains(s.Silent.Agents, n.Name), t.onNode[n.Name])...)
	}
	for _, r := range in.Replicas {
		lines = append(lines, replicaAttention(r)...)
	}
	for _, name := range s.Silent.Routers {
		add("router %s is silent", name)
	}
	return lines
}

func nodeAttention(n *fleet.Node, silent bool, replicas int) []string {
	var lines []string
	switch {
	case n.Unreachable:
		lines = append(lines, fmt.Sprintf("node %s is unreachable", n.Name))
	case silent:
		lines = append(lines, fmt.Sprintf("node %s: its agent is silent", n.Name))
	}
	if n.Drain != nil && n.Drain.State == "timed_out" && n.Admin == fleet.Cordoned && replicas > 0 {
		lines = append(lines, fmt.Sprintf("node %s: its drain timed out with %s left", n.Name, plural(replicas, "replica")))
	}
	if bad, why := unhealthyCards(n); bad > 0 {
		lines = append(lines, fmt.Sprintf("node %s: %s not healthy%s", n.Name, plural(bad, "GPU"), why))
	}
	for _, u := range n.Unmanaged {
		lines = append(lines, fmt.Sprintf("node %s: %s is unmanaged and holds %s", n.Name, u.What, plural(len(u.GPUs), "GPU")))
	}
	return lines
}

// unhealthyCards counts a node's bad cards and gives their reasons, each once.
func unhealthyCards(n *fleet.Node) (int, string) {
	bad, why := 0, []string(nil)
	for _, g := range n.Inventory.GPUs {
		if g.Health == fleet.Healthy {
			continue
		}
		bad++
		if g.Reason != "" && !slices.Contains(why, g.Reason) {
			why = append(why, g.Reason)
		}
	}
	if len(why) == 0 {
		return bad, ""
	}
	return bad, " (" + strings.Join(why, ", ") + ")"
}

func replicaAttention(r *fleet.Replica) []string {
	var lines []string
	if r.State == fleet.Failed {
		lines = append(lines, fmt.Sprintf("replica %s of %s failed: %s", r.ID, r.Model, orUnknown(r.Reason)))
	}
	if len(r.Marks) > 0 {
		lines = append(lines, fmt.Sprintf("replica %s of %s: %s", r.ID, r.Model, strings.Join(r.Marks, ", ")))
	}
	return lines
}

func orUnknown(reason string) string {
	if reason == "" {
		return "no reason was given"
	}
	return reason
}

func plural(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}
