package peer

import (
	"context"
	"fmt"
	"iter"
	"log/slog"
	"time"

	"berth/fleet"
	"berth/fsm"
	"berth/idle"
	"berth/internal/run"
	"berth/peer/board"
)

// hungGraces is after how many graces of silent heartbeats a node is given up although gossip sees it alive: its agent hangs.
const hungGraces = 10

// heartbeatsInGrace is the least number of heartbeats that fit into a grace, whatever the setting says.
const heartbeatsInGrace = 6

// liveness is the duty that marks nodes unreachable. It needs two witnesses: nobody has had a heartbeat for a grace, and nobody sees the node's
// gossip member alive.
type liveness struct {
	log    *slog.Logger
	writer writer
	term   *board.Term
	clock  func() time.Duration
	alive  func() map[string]uint64 // gossip members of agents that this peer sees alive: node → instance
	voters func() []string          // of the configuration, this peer among them
	self   string
	note   func(node, text string)
}

func (l *liveness) run(ctx context.Context) error {
	silences := newSilences()
	return run.Every(ctx, idle.Tick, func(ctx context.Context) error {
		state, now := l.writer.State(), l.clock()
		w := l.term.Witnesses(now, l.alive())
		verdicts := silences.judge(now, w, hearsQuorum(w, l.voters(), l.self), state.Nodes(), graceOf(state), state.Settings().Truce.Std())
		// The brake belongs here: it looks at all verdicts of a minute together before any of them is proposed.
		for _, v := range verdicts {
			l.propose(ctx, v)
		}
		return nil
	})
}

func (l *liveness) propose(ctx context.Context, v verdict) {
	err := l.writer.write(ctx, fsm.NodeLiveness{Node: v.node, Instance: v.instance, Unreachable: true, Reason: v.reason})
	switch {
	case err == nil:
		l.log.Warn("node unreachable", "node", v.node, "instance", v.instance, "reason", v.reason)
		l.note(v.node, "unreachable: "+v.reason)
	case ctx.Err() == nil:
		l.log.Warn("cannot record that a node is unreachable; trying again", "node", v.node, "reason", v.reason, "error", err)
	}
}

// graceOf is node_grace, but never less than six heartbeats of a fleet of this size.
func graceOf(s *fsm.State) time.Duration {
	return max(s.Settings().NodeGrace.Std(), heartbeatsInGrace*idle.Interval(s.NodeCount()))
}

// hearsQuorum says whether this leader and the voters that it hears are a quorum. A leader that is cut off from most peers knows nothing of the
// nodes that speak to those.
func hearsQuorum(w board.Witnesses, voters []string, self string) bool {
	heard := 0
	for _, id := range voters {
		if id == self || w.Peers[id] {
			heard++
		}
	}
	return heard > len(voters)/2
}

// silences counts for how long each node has been silent. Only time in which the leader could have been told counts: while it heard a quorum
// of the peers, and was itself running.
type silences struct {
	last     time.Duration // of the previous look; 0 before the first
	listened time.Duration // in this term
	nodes    map[string]*silence
}

type silence struct {
	instance uint64
	lasted   time.Duration
}

type verdict struct {
	node     string
	instance uint64
	reason   string
}

func newSilences() *silences { return &silences{nodes: make(map[string]*silence)} }

// judge looks once and gives the nodes that are to be marked. It is meant to be called each tick; a longer gap is time in which this process
// stood still, and counts as one tick.
func (s *silences) judge(now time.Duration, w board.Witnesses, quorum bool, nodes iter.Seq[*fleet.Node], grace, truce time.Duration) []verdict {
	step := min(now-s.last, idle.Tick)
	if s.last == 0 || !quorum {
		step = 0
	}
	s.last = now
	s.listened += step
	present := make(map[string]bool)
	var out []verdict
	for n := range nodes {
		present[n.Name] = true
		if n.Unreachable { // it comes back by registering, and begins anew then
			delete(s.nodes, n.Name)
			continue
		}
		lasted := s.count(n, w.Heard[n.Name], now, step)
		if !quorum || s.listened < truce {
			continue
		}
		if why := reason(n, lasted, grace, w.Alive); why != "" {
			out = append(out, verdict{n.Name, n.Instance, why})
		}
	}
	for name := range s.nodes {
		if !present[name] {
			delete(s.nodes, name)
		}
	}
	return out
}

// count lets a node's silence grow, or end with a heartbeat of its registered instance.
func (s *silences) count(n *fleet.Node, heard board.Heard, now, step time.Duration) time.Duration {
	q := s.nodes[n.Name]
	if q == nil || q.instance != n.Instance { // new, or registered anew just now: a sign of life
		q = &silence{instance: n.Instance}
		s.nodes[n.Name] = q
		return 0
	}
	q.lasted += step
	if heard.Instance == n.Instance {
		q.lasted = min(q.lasted, max(0, now-heard.At))
	}
	return q.lasted
}

func reason(n *fleet.Node, lasted, grace time.Duration, alive map[string]uint64) string {
	instance, seen := alive[n.Name]
	switch {
	case lasted < grace:
		return ""
	case !seen || instance != n.Instance:
		return fmt.Sprintf("no heartbeat for %s at any peer, and gossip does not see it", lasted.Round(time.Second))
	case lasted >= hungGraces*grace:
		return fmt.Sprintf("agent hung: no heartbeat for %s although gossip sees it", lasted.Round(time.Second))
	}
	return ""
}
