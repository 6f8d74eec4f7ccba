package peer

import (
	"context"
	"log/slog"
	"net/http"
	"time"

	"berth/admin/client"
	"berth/fleet"
	"berth/fsm"
)

// entranceEvery is how often a peer asks to be taken, or to have its row put right.
const entranceEvery = time.Second

// entrance keeps this peer's row in the state true: where it answers, which levels it understands. It asks the leader for it like any other
// client, since only the leader can write.
type entrance struct {
	log  *slog.Logger
	core *core
	self fleet.Server // Changed is not compared
	http *http.Client
	// others are the HTTP addresses of other peers that are known somehow: one that has moved hears of no leader any more.
	others func() []string
	// add is the leader's own way in.
	add func(context.Context, fleet.Server) error
}

func (e *entrance) run(ctx context.Context) error {
	var said string
	for ctx.Err() == nil {
		state := e.core.State()
		if e.announced(state) {
			select {
			case <-ctx.Done():
			case <-state.Watch(fsm.Cluster):
			}
			continue
		}
		if err := e.announce(ctx); err != nil && ctx.Err() == nil && err.Error() != said {
			said = err.Error()
			e.log.Info("waiting for the leader to take this peer's address", "reason", err)
		}
		pause(ctx, entranceEvery)
	}
	return nil
}

// announced says whether the state knows this peer as it is. A peer without a state is nobody's yet; consensus joins it first.
func (e *entrance) announced(state *fsm.State) bool {
	row, ok := state.Server(e.self.ID)
	if !ok {
		return false
	}
	have := *row
	have.Changed = e.self.Changed
	return have == e.self
}

func (e *entrance) announce(ctx context.Context) error {
	k := e.core.Knowledge()
	ask := []string{k.LeaderHTTP}
	switch {
	case k.IsLeader:
		return e.add(ctx, e.self)
	case k.LeaderHTTP == "":
		ask = e.others() // each passes it on to the leader that it knows
	}
	if len(ask) == 0 {
		return fleet.Errorf(fleet.NoLeader, "no leader's address is known")
	}
	c, err := client.New(client.Config{Addrs: ask, HTTP: e.http})
	if err != nil {
		return err
	}
	_, err = c.Do(ctx, client.Call{Method: http.MethodPost, Path: "peers", Body: e.self, Timeout: 5 * entranceEvery}, nil)
	return err
}
