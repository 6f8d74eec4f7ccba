package agent

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"

	"berth/fleet"
	"berth/fleet/wire"
)

const (
	gather     = 100 * time.Millisecond // that a batch waits for more to report
	maxBatch   = 256                    // transitions a batch
	retryFirst = 500 * time.Millisecond
	retryCap   = 10 * time.Second
)

// outbox reports transitions in batches, in order, each until it is answered. A refused one is never sent again.
type outbox struct {
	node  string
	disk  *disk
	peers Peers
	reg   *registrar
	meter *meter
	log   *slog.Logger

	most int // transitions in the next batch; 0: maxBatch. Of run alone

	mu    sync.Mutex
	queue []parcel
	poke  chan struct{}
}

// parcel is a transition, and who wants to know that it was answered.
type parcel struct {
	wire.Transition
	answered func()
}

func (o *outbox) add(t wire.Transition, answered func()) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.queue = append(o.queue, parcel{t, answered})
	wake(o.poke)
}

// wake puts the one token into a channel that holds one.
func wake(poke chan struct{}) {
	select {
	case poke <- struct{}{}:
	default:
	}
}

func (o *outbox) run(ctx context.Context) error {
	if !o.reg.waitRegistered(ctx) {
		return nil
	}
	wait := retryFirst
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-o.poke:
		}
		if !pause(ctx, gather) {
			return nil
		}
		for o.pending() > 0 {
			if err := o.send(ctx); err == nil {
				wait = retryFirst
				continue
			}
			if !backOff(ctx, &wait) {
				return nil
			}
		}
	}
}

// pause waits for d; false: the context ended first.
func pause(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return ctx.Err() == nil
	case <-ctx.Done():
		return false
	}
}

// backOff waits before the next try, each time longer up to a cap, and by chance a little shorter: a thousand agents that lost their peers together
// must not come back together. False: the context ended first.
func backOff(ctx context.Context, wait *time.Duration) bool {
	d := *wait/2 + rand.N(*wait/2)
	*wait = min(2**wait, retryCap)
	return pause(ctx, d)
}

func (o *outbox) pending() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return len(o.queue)
}

// send sends one batch and takes it off the queue once it is answered. A batch that is refused as such is sent again in halves, until the transition that
// is not taken is alone: the others are the only proof that cards are free.
func (o *outbox) send(ctx context.Context) error {
	if o.most == 0 {
		o.most = maxBatch
	}
	o.mu.Lock()
	batch := o.queue[:min(len(o.queue), o.most)]
	o.mu.Unlock()
	t := wire.Transitions{Version: wire.Version, Instance: o.disk.instance, Items: make([]wire.Transition, len(batch))}
	for i, p := range batch {
		t.Items[i] = p.Transition
	}
	res, err := o.peers.Transitions(ctx, o.node, t)
	if err == nil && len(res.Results) != len(batch) {
		err = fmt.Errorf("%d transitions were answered by %d results", len(batch), len(res.Results))
	}
	refused := errors.Is(err, fleet.BadRequest) || errors.Is(err, fleet.UnknownField) || errors.Is(err, fleet.TooLarge)
	switch {
	case err == nil:
	case refused && len(batch) > 1:
		o.most = len(batch) / 2
		return nil
	case refused:
		res.Results = make([]string, len(batch)) // an answer: the same again would get the same
		for i := range res.Results {
			res.Results[i] = err.Error()
		}
	default:
		o.failed(err, len(batch))
		return err
	}
	o.most = min(2*o.most, maxBatch)
	o.settle(batch, res.Results)
	return nil
}

func (o *outbox) failed(err error, n int) {
	o.meter.reports.WithLabelValues("error").Inc()
	o.log.Warn("transitions could not be reported; they are kept and sent again", "transitions", n, "error", err)
	if errors.Is(err, fleet.StaleEpoch) || errors.Is(err, fleet.NotFound) {
		o.reg.again("the peers do not know this life of the agent")
	}
}

func (o *outbox) settle(batch []parcel, results []string) {
	for i, p := range batch {
		if why := results[i]; why != "" {
			o.meter.reports.WithLabelValues("refused").Inc()
			o.log.Info("a transition was refused and is dropped", "replica", p.Replica, "rank", p.Rank, "to", p.To, "order", p.Order.String(), "why", why)
			continue
		}
		o.meter.reports.WithLabelValues("accepted").Inc()
	}
	o.mu.Lock()
	o.queue = o.queue[len(batch):]
	o.mu.Unlock()
	for _, p := range batch {
		if p.answered != nil {
			p.answered()
		}
	}
}
