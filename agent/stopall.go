package agent

import (
	"context"
	"sync"
	"time"

	"berth/agent/shim"
	"berth/fleet"
	"berth/fleet/wire"
)

const (
	exitDeadline = 10 * time.Second // for requests in flight when engines stop with the agent
	exitLimit    = time.Minute      // for everything, before what still runs is killed
)

// stopAll drains every engine of the node and waits for their ends. It is for trials on a machine that nobody else uses; the peers see the engines
// as gone when the agent starts again.
func (c *crew) stopAll(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, exitLimit)
	defer cancel()
	var all sync.WaitGroup
	for _, v := range c.views() {
		if v.handle != nil && !v.gone {
			all.Go(func() { c.stopOne(ctx, v) })
		}
	}
	all.Wait()
}

func (c *crew) stopOne(ctx context.Context, v view) {
	if err := v.handle.Order(ctx, farewell(v)); err != nil {
		c.log.Warn("an engine is killed, because it takes no order to stop", "replica", v.handle.Launch().Order.Replica, "error", err)
		c.kill(ctx, v.handle)
		return
	}
	st := v.status
	for !st.Ended() || st.Phase != shim.Stopped {
		next, err := v.handle.Status(ctx, st.Version)
		if err != nil || ctx.Err() != nil {
			c.kill(ctx, v.handle)
			return
		}
		st = next
	}
	if err := v.handle.Close(ctx); err != nil {
		c.log.Warn("a shim is not closed", "replica", v.handle.Launch().Order.Replica, "error", err)
	}
}

func (c *crew) kill(ctx context.Context, h shim.Handle) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), exitDeadline)
	defer cancel()
	if err := h.Kill(ctx); err != nil {
		c.log.Error("an engine could not be killed", "replica", h.Launch().Order.Replica, "error", err)
	}
}

// farewell is an order of the agent's own. It has an index after the newest that the shim has seen, which no later order can collide with: the shim
// ends with it.
func farewell(v view) shim.Order {
	o := v.handle.Launch().Order
	o.ID = fleet.Index{Epoch: v.status.Order.Epoch, N: v.status.Order.N + 1}
	if o.ID.Before(v.order.ID) {
		o.ID = v.order.ID
		o.ID.N++
	}
	o.Start = max(o.Start, v.status.Start)
	o.Action = wire.ActionStop
	o.Drain = &fleet.Drain{Reason: "the agent ends (--stop-engines-on-exit)", Deadline: fleet.Duration(exitDeadline), DoorShut: true}
	return shim.Order{Order: o}
}
