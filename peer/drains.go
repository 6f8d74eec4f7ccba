package peer

import (
	"context"
	"log/slog"
	"time"

	"berth/fleet"
	"berth/fsm"
)

// Ends of a node's drain.
const (
	drainRunning  = "running"
	drainDone     = "done"
	drainTimedOut = "timed_out"
)

// drains is the duty that ends the drains of nodes: done when nothing holds a card there any more, timed out at the deadline. Moving the
// replicas away is the planner's.
type drains struct {
	log    *slog.Logger
	writer writer
}

func (d *drains) run(ctx context.Context) error {
	for ctx.Err() == nil {
		state := d.writer.State()
		ended, next := drainsEnded(state, time.Now())
		for node, as := range ended {
			if err := d.writer.write(ctx, fsm.NodeDrainEnd{Node: node, State: as}); err != nil {
				d.log.Warn("cannot record the end of a drain; trying again", "node", node, "state", as, "error", err)
				next = planTick
			}
		}
		t := time.NewTimer(next)
		select {
		case <-ctx.Done():
		case <-state.Watch(fsm.Nodes, fsm.Replicas):
		case <-t.C:
		}
		t.Stop()
	}
	return nil
}

// drainsEnded gives the drains that have ended, by node, and the time until the next deadline. Deadlines are in the log as wall time, because
// a drain outlives the leader that began it.
func drainsEnded(state *fsm.State, now time.Time) (map[string]string, time.Duration) {
	ended, next := make(map[string]string), time.Minute
	for n := range state.Nodes() {
		if n.Drain == nil || n.Drain.State != drainRunning {
			continue
		}
		left := n.Drain.StartAt.Std().Add(n.Drain.Deadline.Std()).Sub(now)
		switch {
		case empty(state, n.Name):
			ended[n.Name] = drainDone
		case left <= 0:
			ended[n.Name] = drainTimedOut
		default:
			next = min(next, left)
		}
	}
	return ended, next
}

// empty says whether no replica holds a card of the node.
func empty(state *fsm.State, node string) bool {
	for r := range state.ReplicasOn(node) {
		if rank := r.Rank(node); rank >= 0 && !r.Shards[rank].Released && r.State != fleet.Stopped {
			return false
		}
	}
	return true
}
