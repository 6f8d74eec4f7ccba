package agent

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"berth/agent/shim"
	"berth/fleet"
	"berth/fleet/wire"
)

const (
	tryAgain  = time.Second      // between tries of what failed, and between looks at cards that are not empty yet
	lookAgain = 10 * time.Second // at what SIGKILL could not end
	refuseFor = time.Minute      // for which a shut door goes on refusing after its replica has left the table
)

// keeper looks after one shard: it brings what its shim does into line with the newest order, and reports what its shim says. It is one
// goroutine, which takes one step whenever the order or the status has changed.
type keeper struct {
	*bench
	replica string
	poke    chan struct{}
	asking  atomic.Bool // the door owes an answer

	mu        sync.Mutex
	order     wire.Order // the newest known; without a replica: none is
	confirmed bool       // a peer gave it in this life of the agent
	handle    shim.Handle
	status    shim.Status
	gone      bool // the shim has ended without being closed
	ended     bool // the peers have answered the report of the end
	over      bool

	// Of the goroutine alone:
	dead    *shim.Dead // what is left of the shim before
	door    *fleet.Door
	told    heard // newest order handed to the shim
	said    said
	refused heard // the order that cannot be carried out here; reported
	watcher sync.WaitGroup
	warned  string
	left    time.Time // when the replica was known to have left the table; zero: it has not
}

// bench is what every keeper works with.
type bench struct {
	maker   shim.Maker
	shop    *workshop
	machine *machine
	outbox  *outbox
	disk    *disk
	contact *contact
	meter   *meter
	log     *slog.Logger
	// stranger names what holds one of these cards without a manager; "": nothing.
	stranger func([]fleet.Claim) string
}

// heard is what of an order a shim acts on.
type heard struct {
	id     fleet.Index
	action string
	shut   bool
}

func heardOf(o wire.Order) heard {
	return heard{o.ID, o.Action, o.Drain != nil && o.Drain.DoorShut}
}

// view is a keeper at one moment.
type view struct {
	order     wire.Order
	confirmed bool
	handle    shim.Handle
	status    shim.Status
	gone      bool
	ended     bool
}

func (v view) phase() string {
	if v.handle == nil {
		return "none"
	}
	return string(v.status.Phase)
}

func (v view) stopping() bool { return v.order.Action == wire.ActionStop }

func newKeeper(b *bench, replica string) *keeper {
	return &keeper{bench: b, replica: replica, poke: make(chan struct{}, 1), said: newSaid()}
}

func (k *keeper) view() view {
	k.mu.Lock()
	defer k.mu.Unlock()
	return view{k.order, k.confirmed, k.handle, k.status, k.gone, k.ended}
}

// take takes an order; one older than the newest is refused. The order of one index can say more as time goes by: where ranks meet, that rank 0's
// door is shut, that a conditional stop was withdrawn.
func (k *keeper) take(o wire.Order, confirmed bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if o.ID.Before(k.order.ID) {
		k.log.Warn("an order older than one seen is ignored", "replica", o.Replica, "order", o.ID.String(), "seen", k.order.ID.String())
		return
	}
	if o.ID != k.order.ID {
		k.ended = false // what the peers have taken in is the end of an older order; after a restore this one comes for the same replica
	}
	k.order, k.confirmed = o, k.confirmed || confirmed
	wake(k.poke)
}

// hold takes a shim, before or while the keeper runs. Its status is known before anybody asks what runs here.
func (k *keeper) hold(h shim.Handle, st shim.Status) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.handle, k.status, k.gone = h, st, false
	wake(k.poke)
}

func (k *keeper) run(ctx context.Context) {
	ctx, cancel := context.WithCancel(ctx)
	defer k.watcher.Wait()
	defer cancel()
	if h := k.view().handle; h != nil {
		k.watch(ctx, h)
	}
	for ctx.Err() == nil {
		wait := k.step(ctx)
		if k.isOver() {
			return
		}
		k.rest(ctx, wait)
	}
}

func (k *keeper) isOver() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.over
}

// rest waits for something new, for at most d if that is not zero.
func (k *keeper) rest(ctx context.Context, d time.Duration) {
	var tick <-chan time.Time
	if d > 0 {
		t := time.NewTimer(d)
		defer t.Stop()
		tick = t.C
	}
	select {
	case <-k.poke:
	case <-tick:
	case <-ctx.Done():
	}
}

// watch follows a shim's status until the shim or the context ends.
func (k *keeper) watch(ctx context.Context, h shim.Handle) {
	k.watcher.Go(func() {
		seen := k.view().status.Version
		for ctx.Err() == nil {
			st, err := h.Status(ctx, seen)
			switch {
			case errors.Is(err, shim.ErrGone):
				k.lost(h)
				return
			case err != nil:
				pause(ctx, tryAgain)
			case st.Version > seen:
				seen = st.Version
				k.see(h, st)
			default: // the context has ended, or the shim has nothing new after all
				pause(ctx, tryAgain)
			}
		}
	})
}

func (k *keeper) see(h shim.Handle, st shim.Status) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.handle == h {
		k.status = st
		wake(k.poke)
	}
}

func (k *keeper) lost(h shim.Handle) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.handle == h {
		k.gone = true
		wake(k.poke)
	}
}

// step does what can be done now and says how soon to look again; 0: when something has changed.
func (k *keeper) step(ctx context.Context) time.Duration {
	v := k.view()
	switch {
	case v.gone:
		return k.mourn(ctx, v)
	case v.handle != nil:
		return k.guide(ctx, v)
	case v.stopping():
		return k.conclude(ctx, v)
	case v.order.Replica != "":
		return k.begin(ctx, v)
	}
	return 0
}

// mourn finds out what a shim left that ended without being closed.
func (k *keeper) mourn(ctx context.Context, v view) time.Duration {
	number := v.handle.Launch().Shim
	found, err := k.maker.Find(ctx)
	if err != nil {
		k.warn("what a dead shim left cannot be looked at", err)
		return tryAgain
	}
	k.dead = nil
	for _, d := range found.Dead {
		if d.Launch.Shim == number {
			k.dead = &d
		}
	}
	if k.dead == nil { // its folder is gone too: what is known of it is its last status
		k.dead = &shim.Dead{Launch: v.handle.Launch(), Last: v.status, Forget: func() error { return nil }}
	}
	k.log.Warn("a shim has ended", "replica", k.replica, "shim", number, "stuck", k.dead.Stuck)
	k.mu.Lock()
	k.handle, k.gone = nil, false
	k.mu.Unlock()
	wake(k.poke)
	return 0
}

// warn logs a failure of what is tried again and again once for each cause.
func (k *keeper) warn(what string, err error) {
	if line := what + err.Error(); line != k.warned {
		k.warned = line
		k.log.Warn(what, "replica", k.replica, "error", err)
	}
}

// reading asks the door of rank 0.
func (k *keeper) reading(ctx context.Context) (wire.Reading, error) {
	h := k.view().handle
	if h == nil {
		return wire.Reading{}, shim.ErrGone
	}
	r, err := h.Reading(ctx)
	r.Replica = k.replica
	return r, err
}
