package peer

import (
	"context"
	"time"

	"berth/fleet"
	"berth/fsm"
)

// writer is what the leader's duties change the state through.
type writer interface {
	State() *fsm.State
	Propose(ctx context.Context, meta fsm.Meta, cmd fsm.Command) (fsm.Outcome, error)
	// write proposes a command in the leader's own name; a refusal by the state is an error here.
	write(ctx context.Context, cmd fsm.Command) error
}

// byLeader is who the log names for what the leader's duties write.
const byLeader = "leader"

// stamp is the meta of a command that a duty proposes now. It has no request id: a duty looks at the state before it tries again.
func stamp() fsm.Meta { return fsm.Meta{At: fleet.TimeOf(time.Now()), By: byLeader} }

func pause(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
	case <-t.C:
	}
}
