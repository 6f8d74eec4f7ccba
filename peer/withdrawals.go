package peer

import (
	"context"
	"log/slog"
	"time"

	"berth/fleet"
	"berth/fsm"
	"berth/idle"
	"berth/internal/run"
	"berth/peer/board"
)

// withdrawAfter is how old a conditional drain is at least when it is taken back: an agent that was just restarted has answered by then.
const withdrawAfter = 20 * time.Second

// withdrawals is the duty that takes conditional drains back whose door cannot be heard (DESIGN §8, rule 12). Such a drain has no deadline, and while the
// agent of rank 0 is silent nobody can say whether its door has shut; meanwhile the cards of all its ranks would be promised to whoever waits for them,
// and the model would be short of a replica that may well serve. What the door decided unheard is put right when it is heard again.
type withdrawals struct {
	log    *slog.Logger
	writer writer
	term   *board.Term
	clock  func() time.Duration
}

func (w *withdrawals) run(ctx context.Context) error {
	return run.Every(ctx, idle.Tick, func(ctx context.Context) error {
		for _, c := range undecided(w.writer.State(), w.term.SilentAgents(w.clock()), time.Now()) {
			switch err := w.writer.write(ctx, c); {
			case err == nil:
				w.log.Info("a conditional drain is taken back", "replica", c.Replica, "reason", c.Reason)
			case ctx.Err() == nil:
				w.log.Warn("cannot take a conditional drain back; trying again", "replica", c.Replica, "error", err)
			}
		}
		return nil
	})
}

// undecided gives the withdrawals of conditional drains that the door, on a node whose agent is silent, has not answered. A node that is known to be
// unreachable is another matter: its replicas are lost, and whoever needs a replica gets a new one.
func undecided(state *fsm.State, silent []string, now time.Time) []fsm.ReplicaWithdraw {
	var out []fsm.ReplicaWithdraw
	for _, name := range silent {
		if n, ok := state.Node(name); !ok || n.Unreachable {
			continue
		}
		for r := range state.ReplicasOn(name) {
			if r.State != fleet.DrainingDown || r.Rank(name) != 0 || r.Drain.Mark == nil || r.Drain.DoorShut || now.Sub(r.Drain.At.Std()) < withdrawAfter {
				continue
			}
			out = append(out, fsm.ReplicaWithdraw{Replica: r.ID, Order: r.Order, Reason: "not unloaded: the agent of " + name + ", whose door was to decide, is silent"})
		}
	}
	return out
}
