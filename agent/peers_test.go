package agent_test

import (
	"context"
	"sync"
	"time"

	"berth/fleet"
	"berth/fleet/wire"
)

// peers plays the control plane: it gives the orders that a test sets, and records what it is told.
type peers struct {
	mu        sync.Mutex
	cluster   string
	err       error // answers everything
	changed   chan struct{}
	orders    wire.Orders
	asked     []fleet.Index // the after of each question for orders
	regs      []wire.Registration
	regErr    error
	batches   []wire.Transitions
	batchErr  error
	refuse    map[string]string // by what was reported
	poison    string            // a batch that reports it is refused as a whole
	beats     []wire.Heartbeat
	beatTimes []time.Time
	answer    wire.HeartbeatAnswer
	addrs     []string
}

func newPeers() *peers {
	p := &peers{cluster: "c-1", changed: make(chan struct{}), refuse: map[string]string{}}
	p.orders = wire.Orders{Version: 1, Cluster: p.cluster, Node: node, Index: fleet.Index{Epoch: 1, N: 5}}
	p.answer = wire.HeartbeatAnswer{Cluster: p.cluster, Stamp: &wire.Stamp{Leader: "peer-1", Term: 1, Clock: 1}, Interval: fleet.Duration(time.Second)}
	return p
}

func (p *peers) set(f func(*peers)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	f(p)
	close(p.changed)
	p.changed = make(chan struct{})
}

func (p *peers) order(at fleet.Index, orders ...wire.Order) {
	p.set(func(p *peers) { p.orders.Index, p.orders.Orders = at, orders })
}

func (p *peers) Register(_ context.Context, r wire.Registration) (wire.Registered, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.err != nil || p.regErr != nil {
		return wire.Registered{}, firstOf(p.err, p.regErr)
	}
	p.regs = append(p.regs, r)
	return wire.Registered{Cluster: p.cluster, Index: p.orders.Index}, nil
}

func firstOf(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

func (p *peers) Orders(ctx context.Context, _ string, after fleet.Index, wait time.Duration) (wire.Orders, error) {
	p.mu.Lock()
	p.asked = append(p.asked, after)
	p.mu.Unlock()
	t := time.NewTimer(wait)
	defer t.Stop()
	for over := false; ; {
		p.mu.Lock()
		o, err, changed := p.orders, p.err, p.changed
		p.mu.Unlock()
		if err != nil {
			return wire.Orders{}, err
		}
		if over || o.Index != after {
			return o, nil
		}
		select {
		case <-changed:
		case <-t.C:
			over = true
		case <-ctx.Done():
			return wire.Orders{}, ctx.Err()
		}
	}
}

func (p *peers) Transitions(_ context.Context, _ string, t wire.Transitions) (wire.TransitionResults, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.err != nil || p.batchErr != nil {
		return wire.TransitionResults{}, firstOf(p.err, p.batchErr)
	}
	for _, item := range t.Items {
		if p.poison != "" && item.To == p.poison {
			return wire.TransitionResults{}, fleet.Errorf(fleet.TooLarge, "the body is too large")
		}
	}
	p.batches = append(p.batches, t)
	res := wire.TransitionResults{Index: p.orders.Index}
	for _, item := range t.Items {
		res.Results = append(res.Results, p.refuse[item.To])
	}
	return res, nil
}

func (p *peers) Heartbeat(_ context.Context, h wire.Heartbeat) (wire.HeartbeatAnswer, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.err != nil {
		return wire.HeartbeatAnswer{}, p.err
	}
	p.beats, p.beatTimes = append(p.beats, h), append(p.beatTimes, time.Now())
	a := p.answer
	p.answer.Register = false
	return a, nil
}

func (p *peers) SetAddrs(addrs []string) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.addrs = addrs
	return nil
}

func (p *peers) items() []wire.Transition {
	p.mu.Lock()
	defer p.mu.Unlock()
	var all []wire.Transition
	for _, b := range p.batches {
		all = append(all, b.Items...)
	}
	return all
}

func (p *peers) registrations() []wire.Registration {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]wire.Registration(nil), p.regs...)
}

func (p *peers) heartbeats() []wire.Heartbeat {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]wire.Heartbeat(nil), p.beats...)
}
