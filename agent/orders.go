package agent

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"berth/fleet"
	"berth/fleet/wire"
)

// ordersWait is how long a peer may hold a question for newer orders.
const ordersWait = 30 * time.Second

// errOlder is an answer that is older than what was seen before; it is worth nothing.
var errOlder = errors.New("the peer answered with older orders than this node has seen; they are ignored")

// follower asks for orders and hands them on, after they are on disk.
type follower struct {
	cfg     *Config
	disk    *disk
	crew    *crew
	contact *contact
	reg     *registrar
	meter   *meter
	log     *slog.Logger

	confirmed bool // a list was taken in this life
	failing   string
}

func (f *follower) run(ctx context.Context) error {
	if !f.reg.waitRegistered(ctx) {
		return nil
	}
	wait := retryFirst
	for ctx.Err() == nil {
		err := f.ask(ctx)
		f.tell(ctx, err)
		if err == nil {
			wait = retryFirst
			continue
		}
		if !backOff(ctx, &wait) {
			break
		}
	}
	return nil
}

// ask asks once. The first question of a life is answered at once, so that a start does not wait for a change.
func (f *follower) ask(ctx context.Context) error {
	var after fleet.Index
	if f.confirmed {
		after = f.disk.seen()
	}
	o, err := f.cfg.Peers.Orders(ctx, f.cfg.Name, after, ordersWait)
	if err != nil {
		if errors.Is(err, fleet.NotFound) {
			f.reg.again("the peers do not know this node")
		}
		return err
	}
	return f.take(o)
}

func (f *follower) take(o wire.Orders) error {
	if err := f.disk.belongs(o.Cluster); err != nil {
		return err
	}
	if o.Node != f.cfg.Name {
		return fmt.Errorf("a peer answered with the orders of the node %q", o.Node)
	}
	if seen := f.disk.seen(); o.Index.Before(seen) {
		return fmt.Errorf("%w: %s is before %s", errOlder, o.Index, seen)
	}
	if err := f.disk.note(o); err != nil {
		return fmt.Errorf("orders %s are not followed, because they cannot be kept: %w", o.Index, err)
	}
	f.confirmed = true
	f.contact.hear()
	f.meter.orders.Set(float64(o.Index.N))
	f.crew.take(o.Orders)
	return nil
}

// tell logs a failure once in a row, and each list that is ignored.
func (f *follower) tell(ctx context.Context, err error) {
	if err == nil || ctx.Err() != nil {
		f.failing = ""
		return
	}
	if errors.Is(err, errOlder) {
		f.meter.ignored.Inc()
	} else if err.Error() == f.failing {
		return
	}
	f.failing = err.Error()
	f.log.Warn("no new orders", "error", err)
}
