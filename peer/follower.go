package peer

import (
	"context"
	"log/slog"
	"net/http"
	"time"

	"berth/admin/client"
	"berth/idle"
	"berth/internal/run"
	"berth/peer/board"
)

// relayWait bounds one relay. A leader that takes longer is as good as none: the stamp would be old before it is handed out.
const relayWait = 2 * time.Second

// follower passes to the leader, once a tick, what agents told this peer, and takes the leader's stamp and observations for it.
type follower struct {
	log    *slog.Logger
	core   *core
	board  *board.Board
	clock  func() time.Duration
	alive  func() map[string]uint64
	http   *http.Client
	care   *care
	failed bool // the last relay did; for the log
}

func (f *follower) run(ctx context.Context) error {
	return run.Every(ctx, idle.Tick, func(ctx context.Context) error {
		k := f.core.Knowledge()
		if k.IsLeader || k.LeaderHTTP == "" {
			return nil
		}
		err := f.relay(ctx, k.LeaderHTTP)
		if failed := err != nil && ctx.Err() == nil; failed != f.failed {
			f.failed = failed
			if failed {
				f.log.Warn("the leader does not take this peer's heartbeats", "leader", k.Leader, "error", err)
			} else {
				f.log.Info("the leader takes this peer's heartbeats", "leader", k.Leader)
			}
		}
		return nil
	})
}

func (f *follower) relay(ctx context.Context, leader string) error {
	c, err := client.New(client.Config{Addrs: []string{leader}, HTTP: f.http})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, relayWait)
	defer cancel()
	began := f.clock()
	outgoing := f.board.Outgoing(f.alive())
	f.care.tell(&outgoing)
	answer, err := c.RelayHeartbeats(ctx, outgoing)
	if err != nil {
		f.board.Undelivered(outgoing, f.clock()-began)
		return err
	}
	f.board.Delivered(answer, f.clock()-began)
	return nil
}
