package agent

import (
	"context"
	"errors"
	"fmt"
	"time"

	"berth/agent/shim"
	"berth/fleet"
	"berth/fleet/wire"
)

// begin starts a shard that has no shim, if its order may be followed now.
func (k *keeper) begin(ctx context.Context, v view) time.Duration {
	o := v.order
	switch {
	case k.refused == heardOf(o):
		return 0 // reported; the peers will say what comes of it
	case k.settled(o):
		return 0
	case !k.mayStart(v) || !k.machine.measured():
		return tryAgain
	case o.Rank > 0 && o.Master == "":
		return 0 // rank 0 says where to meet, and the order then comes again with it
	}
	if holder := k.stranger(o.Claims); holder != "" {
		k.refuse(o, fmt.Errorf("the card %s; end it first", holder))
		return 0
	}
	launch, err := k.shop.launch(ctx, o, k.before())
	if err != nil {
		if ctx.Err() == nil {
			k.refuse(o, err)
		}
		return 0
	}
	return k.start(ctx, o, launch)
}

// mayStart says whether an order may start an engine now: one that the peers gave and stand by, or one for a single-node replica when no peer has
// answered for so long that there is nobody to ask.
func (k *keeper) mayStart(v view) bool {
	if v.confirmed && k.contact.recent() {
		return true
	}
	return k.contact.alone() && len(v.order.Ranks) <= 1
}

// settled says that a dead shim had already come to an end that only another start number can follow, or that it was a rank of a gang, which
// never starts alone; and reports it.
func (k *keeper) settled(o wire.Order) bool {
	if k.dead == nil || o.Start > k.dead.Last.Start {
		return false
	}
	last := k.dead.Last
	switch {
	case k.dead.Stuck:
		last.Phase, last.Reason = shim.Stuck, stuckReason(*k.dead)
	case last.Phase == shim.Failed:
	case k.dead.Launch.Gang():
		if last.Phase != shim.Exited {
			last.Phase, last.Reason, last.Exit = shim.Exited, "its shim has ended", k.dead.Again().Exit
		}
	default:
		return false
	}
	last.Order = maxIndex(last.Order, o.ID)
	k.report(last, o)
	return true
}

func maxIndex(a, b fleet.Index) fleet.Index {
	if a.Before(b) {
		return b
	}
	return a
}

func stuckReason(d shim.Dead) string {
	if d.Last.Reason != "" {
		return d.Last.Reason
	}
	return "something of the engine lives on under SIGKILL"
}

// before is what a new shim continues. Of a shard that is known from the order on disk alone, that is its door.
func (k *keeper) before() *shim.Dead {
	if k.dead != nil || k.door == nil {
		return k.dead
	}
	return &shim.Dead{Last: shim.Status{Door: k.door}}
}

// refuse reports that an order cannot be carried out on this node.
func (k *keeper) refuse(o wire.Order, err error) {
	k.refused = heardOf(o)
	k.log.Error("a shard cannot run here", "replica", o.Replica, "model", o.Model, "order", o.ID.String(), "error", err)
	k.outbox.add(wire.Transition{Replica: o.Replica, Rank: o.Rank, Order: o.ID, Start: o.Start, To: wire.BecameFailed, Reason: err.Error()}, nil)
}

func (k *keeper) start(ctx context.Context, o wire.Order, l shim.Launch) time.Duration {
	h, err := k.maker.Start(ctx, l)
	if err != nil && ctx.Err() == nil && l.Door != nil {
		k.warn("the door that this replica had cannot be opened again; it gets another", err)
		l.Door = nil
		h, err = k.maker.Start(ctx, l)
	}
	if err != nil && ctx.Err() == nil {
		h, err = k.startedAfterAll(ctx, o, err)
	}
	if ctx.Err() != nil {
		return 0 // if there is a shim, the next life of the agent finds it
	}
	if err != nil {
		k.meter.starts.WithLabelValues("error").Inc()
		k.refuse(o, fmt.Errorf("its shim does not start: %w", err))
		return 0
	}
	k.meter.starts.WithLabelValues("ok").Inc()
	k.log.Info("shim started", "replica", o.Replica, "model", o.Model, "rank", o.Rank, "start", o.Start, "shim", h.Launch().Shim)
	st, err := h.Status(ctx, 0)
	if errors.Is(err, shim.ErrGone) {
		st = shim.Status{Order: o.ID, Start: o.Start}
	}
	k.told, k.said.lived = heardOf(o), true
	k.hold(h, st)
	k.bury()
	k.watch(ctx, h)
	return 0
}

// startedAfterAll finds the shim of a start that failed on its way back: it would hold the cards without anybody knowing it.
func (k *keeper) startedAfterAll(ctx context.Context, o wire.Order, cause error) (shim.Handle, error) {
	found, err := k.maker.Find(ctx)
	if err != nil {
		return nil, errors.Join(cause, err)
	}
	for _, h := range found.Live {
		if l := h.Launch(); l.Order.Replica == o.Replica && l.Order.Rank == o.Rank {
			return h, nil
		}
	}
	return nil, cause
}

// bury forgets the shim before, once another has taken over or its end is reported.
func (k *keeper) bury() {
	if k.dead == nil {
		return
	}
	if k.dead.Forget != nil {
		if err := k.dead.Forget(); err != nil {
			k.log.Warn("the folder of a dead shim stays", "replica", k.replica, "shim", k.dead.Launch.Shim, "error", err)
		}
	}
	k.dead = nil
}
