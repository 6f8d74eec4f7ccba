package status

import (
	"cmp"
	"slices"

	"berth/fleet"
	"berth/fleet/wire"
)

// Summarize computes the status document.
func Summarize(in Input) wire.Status {
	t, c := newTally(&in), newCards(in.Nodes, in.Replicas)
	s := wire.Status{
		Cluster: in.Cluster, Leader: in.Leader, Index: in.Index, KnowledgeAgeMS: in.KnowledgeAge.Milliseconds(), CaughtUp: in.CaughtUp,
		Frozen: in.Frozen, Brake: in.Brake,
		Nodes:        countNodes(in.Nodes),
		GPUs:         c.classes(in.Nodes),
		Fabrics:      c.fabrics(in.Nodes),
		Replicas:     countReplicas(in.Replicas),
		IdleReplicas: in.idleReplicas(t),
		Silent:       in.silent(),
	}
	s.Models, s.Unplaceable = in.countModels(t)
	s.Attention = in.attention(t, s)
	return s
}

// ExitCode is how berthctl status ends: 3 when something needs a person, 2 when a model cannot be placed, else 0.
func ExitCode(s wire.Status) int {
	switch {
	case len(s.Attention) > 0:
		return 3
	case len(s.Unplaceable) > 0:
		return 2
	default:
		return 0
	}
}

func countNodes(nodes []*fleet.Node) wire.NodeCounts {
	c := wire.NodeCounts{Total: len(nodes)}
	for _, n := range nodes {
		switch n.State() {
		case fleet.NodeReady:
			c.Ready++
		case fleet.NodeCordoned:
			c.Cordoned++
		case fleet.NodeDraining:
			c.Draining++
		case fleet.NodeUnreachable:
			c.Unreachable++
		}
	}
	return c
}

func countReplicas(replicas []*fleet.Replica) wire.ReplicaCounts {
	var c wire.ReplicaCounts
	for _, r := range replicas {
		switch r.State {
		case fleet.Ready:
			c.Ready++
		case fleet.Starting:
			c.Starting++
		case fleet.DrainingDown:
			c.Draining++
		case fleet.Failed:
			c.Failed++
		}
	}
	return c
}

// countModels counts each model as satisfied or short; one that is being deleted lacks nothing.
func (in *Input) countModels(t tally) (wire.ModelCounts, []wire.UnplaceableRow) {
	counts, rows := wire.ModelCounts{Total: len(in.Models)}, make([]wire.UnplaceableRow, 0)
	refused := in.refusals()
	for _, m := range in.Models {
		if m.Deleting || t.ready[m.Name()] >= m.Spec.Replicas.Min {
			counts.Satisfied++
		} else {
			counts.Short++
		}
		if r := refused[m.Name()]; t.state(m, r) == modelUnplaceable {
			rows = append(rows, wire.UnplaceableRow{
				Model: m.Name(), SinceSeconds: r.Since.Seconds(), Reason: r.Reason, WouldHelp: r.WouldHelp,
			})
		}
	}
	return counts, rows
}

// idleReplicas lists the ready replicas that have been quiet for at least the threshold, the longest first. One whose quiet is unknown is not
// listed: silence is never taken for idleness.
func (in *Input) idleReplicas(t tally) []wire.IdleRow {
	rows := make([]wire.IdleRow, 0)
	for _, r := range in.Replicas {
		word := in.Idle[r.ID]
		if r.State != fleet.Ready || t.lost[r.ID] || !word.QuietKnown || word.Quiet < in.Settings.IdleThreshold.Std() {
			continue
		}
		rows = append(rows, wire.IdleRow{
			ID: r.ID, Model: r.Model, GPUs: gpus(r),
			IdleSeconds:  seconds(word.Idle, word.IdleKnown),
			QuietSeconds: seconds(word.Quiet, true),
			AsOfSeconds:  seconds(word.AsOf, word.AsOfKnown),
		})
	}
	slices.SortStableFunc(rows, func(a, b wire.IdleRow) int {
		return cmp.Or(cmp.Compare(b.QuietSeconds, a.QuietSeconds), cmp.Compare(a.ID, b.ID))
	})
	return rows
}

// gpus is how many cards a replica holds, in whole or in part.
func gpus(r *fleet.Replica) int {
	n := 0
	for _, s := range r.Shards {
		n += len(s.Claims)
	}
	return n
}

// silent names who has not been heard for longer than it should. An observer that has only begun to listen calls nobody silent.
func (in *Input) silent() wire.Silent {
	s := wire.Silent{Agents: make([]string, 0), Routers: make([]string, 0)}
	for _, n := range in.Nodes {
		age, heard := in.Heartbeats[n.Name]
		if !heard {
			age = in.Listening
		}
		if age > in.silentAgent() {
			s.Agents = append(s.Agents, n.Name)
		}
	}
	for _, r := range in.Routers {
		if r.Age > silentRouter {
			s.Routers = append(s.Routers, r.Report.Router)
		}
	}
	slices.Sort(s.Routers)
	return s
}
