package peer

import (
	"context"
	"log/slog"
	"time"

	"berth/fleet"
	"berth/fsm"
)

// doorSlack is what rank 0's door may take beyond a drain's deadline to say that it is shut and empty: its clock began when it heard the order, and
// its word has a way to go.
const doorSlack = 10 * time.Second

// gangsPace is the pause between two looks at all replicas, however often they change: little beside doorSlack, and much beside what a look costs.
const gangsPace = 500 * time.Millisecond

// gangs is the duty that ends gangs whose door does not speak (DESIGN §8, rule 12): the ranks above 0 end only once rank 0 is known to be shut and
// empty, or the deadline has passed by the leader's clock. Rank 0's machine may be gone for good; the cards of the others must not wait for it. A
// conditional drain has no deadline: withdrawals looks after it.
type gangs struct {
	log    *slog.Logger
	writer writer
}

func (g *gangs) run(ctx context.Context) error {
	for ctx.Err() == nil {
		state := g.writer.State()
		late, next := doorsLate(state, time.Now())
		for _, id := range late {
			if err := g.writer.write(ctx, fsm.ReplicaFail{Replica: id, Reason: "rank 0 did not end by the drain's deadline; the other ranks are ended without it"}); err != nil {
				g.log.Warn("cannot end a gang whose door does not speak; trying again", "replica", id, "error", err)
				next = planTick
			}
		}
		t := time.NewTimer(next)
		select {
		case <-ctx.Done():
		case <-state.Watch(fsm.Replicas):
		case <-t.C:
		}
		t.Stop()
		pause(ctx, gangsPace)
	}
	return nil
}

// doorsLate gives the draining gangs whose door should have ended by now, and the time until the next one could be among them.
func doorsLate(state *fsm.State, now time.Time) (late []string, next time.Duration) {
	next = time.Minute
	for r := range state.Replicas() {
		if r.State != fleet.DrainingDown || len(r.Shards) < 2 || r.Drain == nil || r.Drain.Mark != nil || r.Drain.DoorShut {
			continue
		}
		if left := r.Drain.At.Std().Add(r.Drain.Deadline.Std() + doorSlack).Sub(now); left <= 0 {
			late = append(late, r.ID)
		} else {
			next = min(next, left)
		}
	}
	return late, next
}
