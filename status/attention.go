package status

import (
	"fmt"
	"slices"
	"strings"

	"berth/fleet"
)

// issue is something about one node or replica that a person has to look at.
type issue struct {
	kind issueKind
	line string
}

// issueKind orders what is wrong: what comes first matters most. A model that cannot be placed is not among them: it has its own list and its
// own exit code. Nor is a freeze, which a person has ordered.
type issueKind int

const (
	nodeUnreachable issueKind = iota
	agentSilent
	drainTimedOut
	replicaFailed
	replicaMarked
	cardsUnhealthy
	unmanagedHolds
	routerSilent
	issueKinds
)

// together says a kind of issue of many nodes or replicas in one line.
func (k issueKind) together() string {
	return [issueKinds]string{
		"%d nodes are unreachable", "%d agents are silent", "%d drains timed out", "%d replicas failed", "%d replicas are not as they were placed",
		"%d nodes have GPUs that are not healthy", "%d nodes have something unmanaged on their GPUs", "%d routers are silent",
	}[k]
}

// fewIssues is how many of a kind are said one by one; of more the first few are named and the others counted. The lists have them all.
const fewIssues = 3

// issues are the issues of a fleet by kind, each kind in order of name.
type issues [issueKinds][]namedIssue

type namedIssue struct{ name, line string }

func (all *issues) add(name string, list []issue, sign int) {
	for _, one := range list {
		kind := &all[one.kind]
		i, _ := slices.BinarySearchFunc(*kind, name, func(n namedIssue, name string) int { return strings.Compare(n.name, name) })
		if sign > 0 {
			*kind = slices.Insert(*kind, i, namedIssue{name, one.line})
		} else {
			*kind = slices.Delete(*kind, i, i+1)
		}
	}
}

// lines says a kind in as many lines as a person will read.
func (k issueKind) lines(of []namedIssue) []string {
	var out, names []string
	for _, i := range of {
		if len(of) <= fewIssues {
			out = append(out, i.line)
		} else if len(names) < fewIssues {
			names = append(names, i.name)
		}
	}
	if len(names) > 0 {
		out = append(out, fmt.Sprintf(k.together()+": %s and %d more", len(of), strings.Join(names, ", "), len(of)-len(names)))
	}
	return out
}

func nodeIssues(n *fleet.Node, replicas int) []issue {
	var out []issue
	add := func(kind issueKind, format string, args ...any) {
		out = append(out, issue{kind, fmt.Sprintf("node %s", n.Name) + fmt.Sprintf(format, args...)})
	}
	if n.Unreachable {
		add(nodeUnreachable, " is unreachable%s", because(n.UnreachableReason))
	}
	if n.Drain != nil && n.Drain.State == "timed_out" && n.Admin == fleet.Cordoned && replicas > 0 {
		add(drainTimedOut, ": its drain timed out with %s left", plural(replicas, "replica"))
	}
	if bad, why := unhealthyCards(n); bad > 0 {
		add(cardsUnhealthy, ": %s not healthy%s", plural(bad, "GPU"), why)
	}
	if len(n.Unmanaged) > 0 {
		add(unmanagedHolds, ": %s", unmanagedText(n.Unmanaged))
	}
	return out
}

// because gives a reason in brackets, where there is one.
func because(reason string) string {
	if reason == "" {
		return ""
	}
	return " (" + reason + ")"
}

func unmanagedText(list []fleet.Unmanaged) string {
	parts := make([]string, len(list))
	for i, u := range list {
		parts[i] = fmt.Sprintf("%s is unmanaged and holds %s", u.What, plural(len(u.GPUs), "GPU"))
	}
	return strings.Join(parts, "; ")
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
	return bad, because(strings.Join(why, ", "))
}

func replicaIssues(r *fleet.Replica) []issue {
	var out []issue
	if r.State == fleet.Failed {
		out = append(out, issue{replicaFailed, fmt.Sprintf("replica %s of %s failed: %s", r.ID, r.Model, orUnknown(r.Reason))})
	}
	if len(r.Marks) > 0 {
		out = append(out, issue{replicaMarked, fmt.Sprintf("replica %s of %s: %s", r.ID, r.Model, strings.Join(r.Marks, ", "))})
	}
	return out
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
