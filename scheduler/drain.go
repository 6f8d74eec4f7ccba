package scheduler

import (
	"strings"

	"berth/fleet"
)

// EndOfDrain is the verdict on a node's running drain.
type EndOfDrain struct {
	Node  string
	State string   // done or timed_out
	Left  []string // replicas that still hold cards there, with timed_out
}

// EndedDrains returns the node drains that have come to an end: done when no replica holds a card of the node any more, timed out when the deadline has
// passed before. What is left is not stopped: a replica without a replacement is downtime, and that needs a person's word (berthctl replica stop).
func EndedDrains(s Snapshot) []EndOfDrain {
	var out []EndOfDrain
	for _, n := range s.Nodes {
		if n.Admin != fleet.Draining || n.Drain == nil || n.Drain.State != "running" {
			continue
		}
		left := holders(s.Replicas, n.Name)
		late := s.Now >= n.Drain.StartAt+fleet.Time(n.Drain.Deadline.Std().Milliseconds())
		switch {
		case len(left) == 0:
			out = append(out, EndOfDrain{Node: n.Name, State: "done"})
		case late:
			out = append(out, EndOfDrain{Node: n.Name, State: "timed_out", Left: left})
		}
	}
	return out
}

func holders(replicas []*fleet.Replica, node string) []string {
	var ids []string
	for _, r := range replicas {
		if i := r.Rank(node); i >= 0 && !r.Shards[i].Released {
			ids = append(ids, r.ID)
		}
	}
	return ids
}

// String writes the verdict in one line.
func (e EndOfDrain) String() string {
	if len(e.Left) == 0 {
		return "drain of " + e.Node + ": " + e.State
	}
	return "drain of " + e.Node + ": " + e.State + ", left: " + strings.Join(e.Left, ", ")
}
