package status

import (
	"cmp"
	"fmt"
	"iter"
	"slices"
	"time"

	"berth/fleet"
	"berth/fleet/wire"
)

// Frame is the frame of an answer: which cluster, seen from where, how fresh.
type Frame struct {
	Cluster      string
	Peer         string // that answers
	Leader       string // empty: none known
	Index        fleet.Index
	KnowledgeAge time.Duration // negative: unknown
	CaughtUp     bool
	Frozen       *fleet.Freeze
	Brake        *string // why the brake is on; nil: it is off
}

// Word is what the leader has observed, as far as the summary shows it.
type Word struct {
	Known        bool          // false: nothing that is recent enough, so nobody is called silent or quiet
	Age          time.Duration // of the word; negative: none was ever heard
	Refusals     []Refused
	IdleReplicas []wire.IdleRow
	Silent       wire.Silent
	Attention    []string // what the leader's duties want a person to see
	Backup       *wire.Backup
}

// Summarize makes the status document of what the tally has counted and the leader has observed.
func (t *Tally) Summarize(f Frame, w Word) wire.Status {
	s := wire.Status{
		Cluster: f.Cluster, Peer: f.Peer, Leader: f.Leader, Index: f.Index, KnowledgeAgeMS: milliseconds(f.KnowledgeAge),
		ObservedAgeMS: milliseconds(w.Age), CaughtUp: f.CaughtUp, Frozen: f.Frozen, Brake: f.Brake,
		Nodes: t.nodeCounts(), GPUs: t.classRows(), Fabrics: t.fabrics.counts(),
		Replicas: wire.ReplicaCounts{
			Ready: t.states[fleet.Ready], Starting: t.states[fleet.Starting], Draining: t.states[fleet.DrainingDown], Failed: t.states[fleet.Failed],
		},
		Models:       wire.ModelCounts{Total: len(t.models), Satisfied: len(t.models) - t.short, Short: t.short},
		Unplaceable:  t.unplaceable(w.Refusals),
		IdleReplicas: w.IdleReplicas,
		Silent:       w.Silent,
		Backup:       w.Backup,
	}
	s.Attention = t.attention(f, w)
	return s
}

func milliseconds(age time.Duration) int64 {
	if age < 0 {
		return -1
	}
	return age.Milliseconds()
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

func (t *Tally) nodeCounts() wire.NodeCounts {
	return wire.NodeCounts{
		Total: len(t.nodes), Ready: t.byState[fleet.NodeReady], Cordoned: t.byState[fleet.NodeCordoned],
		Draining: t.byState[fleet.NodeDraining], Unreachable: t.byState[fleet.NodeUnreachable],
	}
}

// unplaceable lists the refused models that lack replicas with nothing starting.
func (t *Tally) unplaceable(refusals []Refused) []wire.UnplaceableRow {
	rows := make([]wire.UnplaceableRow, 0)
	for _, r := range refusals {
		if m, ok := t.models[r.Model]; ok && t.state(m.row, &r) == modelUnplaceable {
			rows = append(rows, wire.UnplaceableRow{Model: r.Model, SinceSeconds: r.Since.Seconds(), Reason: r.Reason, WouldHelp: r.WouldHelp})
		}
	}
	return rows
}

// IdleReplicas lists the ready replicas that have been quiet for at least the threshold, the longest first. One whose quiet is unknown is not
// listed: silence is never taken for idleness.
func (t *Tally) IdleReplicas(words iter.Seq2[string, Idle], threshold time.Duration) []wire.IdleRow {
	rows := make([]wire.IdleRow, 0)
	for id, word := range words {
		r, ok := t.replicas[id]
		if !ok || r.state != fleet.Ready || r.lost || !word.QuietKnown || word.Quiet < threshold {
			continue
		}
		rows = append(rows, wire.IdleRow{
			ID: id, Model: r.model, GPUs: r.gpus,
			IdleSeconds:  seconds(word.Idle, word.IdleKnown),
			QuietSeconds: seconds(word.Quiet, true),
			AsOfSeconds:  seconds(word.AsOf, word.AsOfKnown),
		})
	}
	slices.SortFunc(rows, func(a, b wire.IdleRow) int {
		return cmp.Or(cmp.Compare(b.QuietSeconds, a.QuietSeconds), cmp.Compare(a.ID, b.ID))
	})
	return rows
}

// attention says, a line each, what a person has to look at; what comes first matters most.
func (t *Tally) attention(f Frame, w Word) []string {
	lines := frameLines(f, w)
	for kind := range issueKinds {
		of := t.issues[kind]
		switch kind {
		case agentSilent:
			of = t.silentAgents(w.Silent.Agents)
		case routerSilent:
			of = silentRouters(w.Silent.Routers)
		}
		lines = append(lines, kind.lines(of)...)
	}
	return append(lines, w.Attention...)
}

func frameLines(f Frame, w Word) []string {
	lines := make([]string, 0)
	if !f.CaughtUp {
		lines = append(lines, "this peer has not caught up; what it shows may be old")
	}
	switch {
	case f.Leader == "":
		lines = append(lines, "no leader is known; nothing can be changed, and idle times are unknown")
	case !w.Known && w.Age < 0:
		lines = append(lines, "what the leader observes has not been heard yet; idle times are unknown")
	case !w.Known:
		lines = append(lines, fmt.Sprintf("what the leader observes was last heard %s ago; idle times are unknown", w.Age.Round(time.Second)))
	}
	if f.Brake != nil {
		lines = append(lines, "the brake is on: "+*f.Brake)
	}
	return lines
}

// silentAgents leaves out nodes that are unreachable: that says it already.
func (t *Tally) silentAgents(names []string) []namedIssue {
	var out []namedIssue
	for _, name := range names {
		if t.reaches(name) {
			out = append(out, namedIssue{name, fmt.Sprintf("node %s: its agent is silent", name)})
		}
	}
	return out
}

func silentRouters(names []string) []namedIssue {
	var out []namedIssue
	for _, name := range names {
		out = append(out, namedIssue{name, fmt.Sprintf("router %s is silent", name)})
	}
	return out
}
