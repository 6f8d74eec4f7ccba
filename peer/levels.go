package peer

import (
	"context"
	"log/slog"

	"berth/consensus"
	"berth/fsm"
)

// levels is the duty that raises the cluster's level as soon as every peer of the configuration understands a newer one.
type levels struct {
	log     *slog.Logger
	writer  writer
	servers func() []consensus.Server
}

func (l *levels) run(ctx context.Context) error {
	for ctx.Err() == nil {
		state := l.writer.State()
		if to := common(state, l.servers()); to > state.Cluster().Level {
			if err := l.writer.write(ctx, fsm.LevelRaise{Level: to}); err != nil {
				l.log.Warn("cannot raise the level; trying again", "level", to, "error", err)
			} else {
				l.log.Info("level raised", "level", to)
			}
			pause(ctx, planRetry)
			continue
		}
		select {
		case <-ctx.Done():
		case <-state.Watch(fsm.Cluster):
		}
	}
	return nil
}

// common is the newest level that every peer of the configuration understands, non-voters included; 0 while one has not said.
func common(state *fsm.State, servers []consensus.Server) int {
	level := fsm.Level
	for _, s := range servers {
		row, ok := state.Server(s.ID)
		if !ok {
			return 0
		}
		level = min(level, row.MaxLevel)
	}
	return level
}
