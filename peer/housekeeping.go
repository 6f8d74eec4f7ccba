package peer

import (
	"context"
	"fmt"
	"time"

	"berth/idle"
	"berth/internal/run"
	"berth/peer/board"
)

// tooManyInstalls is how many snapshots sent to one peer in five minutes mean that it does not get any further (raft issue 697).
const tooManyInstalls = 3

// housekeeping is the duty that keeps the observed side in step with the state: what is gone is forgotten, who is only known by gossip is listed,
// and what a person should see about the peers is said.
type housekeeping struct {
	term   *board.Term
	core   *core
	roster *roster
	care   *care
	clock  func() time.Duration
	since  time.Time // since when this peer leads: before others have had time to answer, their silence says nothing
}

func (h *housekeeping) run(ctx context.Context) error {
	h.once()
	return run.Every(ctx, idle.Tick, func(context.Context) error {
		h.once()
		return nil
	})
}

func (h *housekeeping) once() {
	h.term.Tidy()
	h.term.SetDiscovered(h.roster.discovered(h.core.State()))
	h.term.SetAttention("peers", h.peers()...)
	h.term.Own(h.clock(), h.care.warnings(), h.care.backups.word())
	h.term.SetAttention("peers' own", h.term.Warnings(h.clock())...)
}

// peers says which peers do not answer or do not get any further.
func (h *housekeeping) peers() []string {
	var out []string
	for _, s := range h.core.node.Servers() {
		switch {
		case s.ID == h.core.ID():
		case s.Heard < 0 && time.Since(h.since) < peerSilentAfter:
		case s.Heard < 0:
			out = append(out, fmt.Sprintf("peer %s has not answered this leader yet", s.ID))
		case s.Heard > peerSilentAfter:
			out = append(out, fmt.Sprintf("peer %s has not answered for %s", s.ID, s.Heard.Round(time.Second)))
		case s.Silent > 0:
			out = append(out, fmt.Sprintf("peer %s answers heartbeats and has learned nothing for %s", s.ID, s.Silent.Round(time.Second)))
		case s.Installs > tooManyInstalls:
			out = append(out, fmt.Sprintf("peer %s was sent %d snapshots in five minutes and does not catch up", s.ID, s.Installs))
		}
	}
	return out
}
