package agent

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"berth/agent/shim"
	"berth/fleet"
	"berth/fleet/wire"
	"berth/internal/run"
)

const (
	findEvery   = 10 * time.Second
	statusLimit = 5 * time.Second // for the first status of a shim that was found
)

// crew is every keeper of the node, by replica: a node has at most one shard of a replica.
type crew struct {
	*bench
	cfg     *Config
	changed func(why string)
	log     *slog.Logger

	all sync.WaitGroup

	mu        sync.Mutex
	ctx       context.Context // of the keepers; nil: run has not begun
	closed    bool
	keepers   map[string]*keeper
	unmanaged []fleet.Unmanaged
}

func newCrew(cfg *Config, b *bench, changed func(string)) *crew {
	c := &crew{bench: b, cfg: cfg, changed: changed, log: cfg.Logger, keepers: make(map[string]*keeper)}
	b.stranger = c.holder
	return c
}

// holder names what nobody manages and yet holds one of these cards.
func (c *crew) holder(claims []fleet.Claim) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, u := range c.unmanaged {
		for _, claim := range claims {
			if slices.Contains(u.GPUs, claim.GPU) {
				return fmt.Sprintf("%s is held by process %d, a %s", claim.GPU, u.PID, u.What)
			}
		}
	}
	return ""
}

// adopt finds what runs on the machine, before anything is registered or ordered, and joins it with the last orders on disk.
func (c *crew) adopt(ctx context.Context) error {
	found, err := c.maker.Find(ctx)
	if err != nil {
		return err
	}
	for _, e := range c.disk.entries() {
		k := c.keeper(e.Order.Replica)
		k.door = e.Door
		k.take(e.Order, false)
	}
	for _, h := range found.Live {
		c.adoptLive(ctx, h)
	}
	for _, d := range found.Dead {
		c.adoptDead(d)
	}
	c.setUnmanaged(found.Unmanaged)
	return nil
}

func (c *crew) adoptLive(ctx context.Context, h shim.Handle) {
	l := h.Launch()
	k := c.keeper(l.Order.Replica)
	if k.view().handle != nil {
		c.log.Error("two shims run one replica; the second is left alone", "replica", l.Order.Replica, "shim", l.Shim)
		return
	}
	ctx, cancel := context.WithTimeout(ctx, statusLimit)
	defer cancel()
	st, err := h.Status(ctx, 0)
	if err != nil { // it may yet answer: its keeper goes on asking
		c.log.Warn("a shim does not say how it is", "replica", l.Order.Replica, "shim", l.Shim, "error", err)
		st = shim.Status{Phase: shim.Starting, Shim: l.Shim, Order: l.Order.ID, Start: l.Order.Start}
	}
	c.shop.ports.keep(l.Order.Replica, l.Program)
	k.hold(h, st)
	c.log.Info("found a shim", "replica", l.Order.Replica, "model", l.Order.Model, "shim", l.Shim, "phase", string(st.Phase))
}

func (c *crew) adoptDead(d shim.Dead) {
	k := c.keeper(d.Launch.Order.Replica)
	c.log.Warn("found a dead shim", "replica", d.Launch.Order.Replica, "shim", d.Launch.Shim, "stuck", d.Stuck)
	switch {
	case k.view().handle == nil && (k.dead == nil || k.dead.Launch.Shim < d.Launch.Shim):
		if k.dead != nil {
			k.bury()
		}
		k.dead = &d
	case d.Forget != nil && !d.Stuck:
		if err := d.Forget(); err != nil {
			c.log.Warn("the folder of a dead shim stays", "shim", d.Launch.Shim, "error", err)
		}
	}
}

// keeper gives the keeper of a replica, and makes it if there is none.
func (c *crew) keeper(replica string) *keeper {
	c.mu.Lock()
	defer c.mu.Unlock()
	k, ok := c.keepers[replica]
	if !ok {
		k = newKeeper(c.bench, replica)
		c.keepers[replica] = k
		if c.ctx != nil && !c.closed {
			c.employ(k)
		}
	}
	return k
}

// employ lets a keeper work; c.mu is held.
func (c *crew) employ(k *keeper) {
	ctx := c.ctx
	c.all.Go(func() {
		k.run(ctx)
		c.mu.Lock()
		defer c.mu.Unlock()
		if k.isOver() && c.keepers[k.replica] == k {
			delete(c.keepers, k.replica)
		}
	})
}

// take hands orders to their keepers. A keeper whose order is not in the list goes on as it was.
func (c *crew) take(orders []wire.Order) {
	for _, o := range orders {
		c.keeper(o.Replica).take(o, true)
	}
}

// run lets the keepers work until the context ends, and waits for them. What they look after goes on, unless the configuration says otherwise.
func (c *crew) run(ctx context.Context) error {
	c.mu.Lock()
	c.ctx = ctx
	for _, k := range c.keepers {
		c.employ(k)
	}
	c.mu.Unlock()
	err := run.Every(ctx, findEvery, c.find)
	c.mu.Lock()
	c.closed = true
	c.mu.Unlock()
	c.all.Wait()
	if c.cfg.StopEnginesOnExit {
		c.stopAll(context.WithoutCancel(ctx))
	}
	return err
}

// find looks for shims that nobody can manage; they hold their cards.
func (c *crew) find(ctx context.Context) error {
	found, err := c.maker.Find(ctx)
	if err != nil {
		c.log.Warn("the shims on this machine cannot be listed", "error", err)
		return nil
	}
	if c.setUnmanaged(found.Unmanaged) {
		c.changed("what runs without a manager has changed")
	}
	return nil
}

func (c *crew) setUnmanaged(u []fleet.Unmanaged) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	same := slices.EqualFunc(c.unmanaged, u, func(a, b fleet.Unmanaged) bool {
		return a.What == b.What && a.PID == b.PID && slices.Equal(a.GPUs, b.GPUs)
	})
	c.unmanaged = u
	return !same
}

func (c *crew) list() []*keeper {
	c.mu.Lock()
	defer c.mu.Unlock()
	all := make([]*keeper, 0, len(c.keepers))
	for _, k := range c.keepers {
		all = append(all, k)
	}
	slices.SortFunc(all, func(a, b *keeper) int { return cmp.Compare(a.replica, b.replica) })
	return all
}

func (c *crew) views() []view {
	var out []view
	for _, k := range c.list() {
		out = append(out, k.view())
	}
	return out
}

func (c *crew) get(replica string) (*keeper, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	k, ok := c.keepers[replica]
	return k, ok
}

// doors gives the keepers whose shim has a door.
func (c *crew) doors() []*keeper {
	return slices.DeleteFunc(c.list(), func(k *keeper) bool {
		v := k.view()
		return v.handle == nil || v.gone || v.ended || v.handle.Launch().Order.Rank > 0
	})
}

// running lists every shard that a shim runs, for the registration, and what nobody manages.
func (c *crew) running() ([]wire.Running, []fleet.Unmanaged) {
	var out []wire.Running
	for _, v := range c.views() {
		if v.handle == nil || v.gone || v.status.Ended() {
			continue
		}
		l := v.handle.Launch()
		o := l.Order
		out = append(out, wire.Running{
			Replica: o.Replica, Rank: o.Rank, Model: o.Model, Generation: o.Generation, RunHash: o.RunHash,
			Order: v.status.Order, Start: v.status.Start, Ready: v.status.Phase == shim.Ready, Shim: l.Shim, Door: v.status.Door, Claims: o.Claims,
		})
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return out, slices.Clone(c.unmanaged)
}
