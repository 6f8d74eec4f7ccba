package peer

import (
	"context"
	"log/slog"
	"time"

	"berth/consensus"
	"berth/fsm"
	"berth/idle"
	"berth/internal/run"
)

// retirement is the duty that removes peers that are gone for good, if the setting remove_dead_peer_after says after how long. Consensus refuses
// what would leave fewer live voters than a quorum.
type retirement struct {
	log   *slog.Logger
	core  *core
	since time.Time // this peer has led since then
}

func (r *retirement) run(ctx context.Context) error {
	return run.Every(ctx, 5*idle.Tick, func(ctx context.Context) error {
		after := r.core.State().Settings().RemoveDeadPeerAfter.Std()
		for _, id := range overdue(r.core.node.Servers(), r.core.ID(), after, time.Since(r.since)) {
			if err := r.remove(ctx, id); err != nil && ctx.Err() == nil {
				r.log.Warn("cannot remove a dead peer", "peer", id, "error", err)
			}
		}
		return nil
	})
}

func (r *retirement) remove(ctx context.Context, id string) error {
	if err := r.core.node.Remove(ctx, id, false); err != nil {
		return err
	}
	r.log.Warn("removed a dead peer", "peer", id)
	return r.core.write(ctx, fsm.ServerForget{ID: id})
}

// overdue lists the peers that have not answered for so long. One that was never heard by this leader counts from when it began to lead, led ago.
func overdue(servers []consensus.Server, self string, after, led time.Duration) []string {
	var out []string
	for _, s := range servers {
		silent := s.Heard
		if silent < 0 {
			silent = led
		}
		if after > 0 && s.ID != self && silent > after {
			out = append(out, s.ID)
		}
	}
	return out
}
