package agent

import (
	"context"
	"errors"
	"time"

	"berth/agent/shim"
	"berth/fleet"
	"berth/fleet/wire"
)

// guide brings a shim that lives into line with the newest order, and reports what it says.
func (k *keeper) guide(ctx context.Context, v view) time.Duration {
	k.keepDoor(v.status.Door)
	k.report(v.status, v.order)
	if v.order.Replica != "" && k.told != heardOf(v.order) {
		if wait := k.tell(ctx, v); wait > 0 {
			return wait
		}
	}
	if v.stopping() && v.status.Phase == shim.Stopped && !v.status.Order.Before(v.order.ID) {
		return k.finish(ctx, v)
	}
	return 0
}

// keepDoor keeps what a start without peers needs.
func (k *keeper) keepDoor(d *fleet.Door) {
	if d == nil || k.door != nil && *k.door == *d {
		return
	}
	if err := k.disk.door(k.replica, *d); err != nil {
		k.warn("the door of a replica is not kept", err)
		return
	}
	k.door = d
}

// tell hands the order to the shim. A new start number comes with a new command line; the ranks above 0 wait for where to meet.
func (k *keeper) tell(ctx context.Context, v view) time.Duration {
	o := shim.Order{Order: v.order}
	if o.Action == wire.ActionRun && o.Start > v.status.Start {
		if o.Rank > 0 && o.Master == "" {
			return 0
		}
		if k.refused == heardOf(v.order) {
			return 0
		}
		program, _, err := k.shop.program(ctx, v.order)
		if err != nil {
			if ctx.Err() == nil {
				k.refuse(v.order, err)
			}
			return 0
		}
		o.Program = &program
	}
	err := v.handle.Order(ctx, o)
	switch {
	case err == nil, errors.Is(err, fleet.TooOld), errors.Is(err, fleet.BadRequest):
		if err != nil {
			k.log.Warn("the shim refuses an order", "replica", k.replica, "order", o.ID.String(), "error", err)
		}
		k.told = heardOf(v.order)
		return 0
	case errors.Is(err, shim.ErrGone):
		k.lost(v.handle)
		return 0
	}
	k.warn("a shim does not take an order", err)
	return tryAgain
}

// finish proves that the cards of a stopped shard are empty, reports it, and closes the shim once the peers have taken it in.
func (k *keeper) finish(ctx context.Context, v view) time.Duration {
	if !v.ended {
		k.left = time.Time{}
		if !v.status.Released && !k.proved(ctx, v.handle.Launch().Order.Claims) {
			return tryAgain
		}
		k.sayStopped(v.status, v.order)
		return 0
	}
	if wait := k.refusing(v); wait > 0 {
		return wait
	}
	err := v.handle.Close(ctx)
	if err != nil && !errors.Is(err, shim.ErrGone) {
		k.warn("a shim that has ended cannot be closed", err)
		return tryAgain
	}
	k.leave()
	return 0
}

// refusing is for how long the shut door of an ended replica still answers. A router that is cut off from the peers goes on sending to it, and must be told
// that nothing was done; a connection that nobody takes says that as well, but looks like a failure. An agent that was started meanwhile begins anew.
func (k *keeper) refusing(v view) time.Duration {
	if v.handle.Launch().Order.Rank > 0 {
		return 0
	}
	if k.left.IsZero() {
		k.left = time.Now()
	}
	return time.Until(k.left.Add(refuseFor))
}

// conclude ends a shard that has no shim: it was never started here, or its shim died.
func (k *keeper) conclude(ctx context.Context, v view) time.Duration {
	if v.ended {
		k.bury()
		k.leave()
		return 0
	}
	last := shim.Status{Start: v.order.Start}
	if k.dead != nil {
		if k.dead.Stuck {
			return k.stillStuck(ctx, v)
		}
		last = k.dead.Last
		last.Start = max(last.Start, v.order.Start)
	}
	last.Order = v.order.ID
	if !k.proved(ctx, v.order.Claims) {
		return tryAgain
	}
	k.sayStopped(last, v.order)
	return 0
}

// stillStuck reports what SIGKILL could not end, and looks again whether it has ended in the meantime.
func (k *keeper) stillStuck(ctx context.Context, v view) time.Duration {
	st := k.dead.Last
	st.Phase, st.Reason, st.Order, st.Start = shim.Stuck, stuckReason(*k.dead), v.order.ID, v.order.Start
	k.report(st, v.order)
	if found, err := k.maker.Find(ctx); err == nil {
		for _, d := range found.Dead {
			if d.Launch.Shim == k.dead.Launch.Shim {
				k.dead = &d
			}
		}
	}
	if !k.dead.Stuck {
		return tryAgain
	}
	return lookAgain
}

func (k *keeper) proved(ctx context.Context, claims []fleet.Claim) bool {
	if !k.machine.measured() {
		return false
	}
	free, err := k.machine.free(ctx, claims)
	if err != nil {
		k.warn("the cards of an ended shard cannot be looked at; they stay claimed", err)
	}
	return free && err == nil
}

// leave ends the keeper.
func (k *keeper) leave() {
	k.log.Info("shard ended", "replica", k.replica)
	if err := k.disk.forget(k.replica); err != nil {
		k.log.Warn("an ended shard stays on disk", "replica", k.replica, "error", err)
	}
	k.shop.ports.release(k.replica)
	k.mu.Lock()
	defer k.mu.Unlock()
	k.over, k.handle = true, nil
}
