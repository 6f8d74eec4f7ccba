package run

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

// Group runs actors that live and die together: when the first one returns, with or without an error, the context of
// all is cancelled.
type Group struct {
	ctx    context.Context
	cancel context.CancelFunc
	wg     sync.WaitGroup

	mu  sync.Mutex
	err error
}

// NewGroup makes a group whose actors also end with ctx. Its owner must call Wait.
func NewGroup(ctx context.Context) *Group {
	g := new(Group)
	g.ctx, g.cancel = context.WithCancel(ctx)
	return g
}

// Add starts an actor. It must return soon after its context ends; what it returns then says nothing unless it is more
// than that end. Actors may add actors.
func (g *Group) Add(name string, actor func(context.Context) error) {
	g.wg.Go(func() {
		defer g.cancel()
		err := actor(g.ctx)
		if err == nil || errors.Is(err, context.Canceled) && g.ctx.Err() != nil {
			return
		}
		g.mu.Lock()
		defer g.mu.Unlock()
		if g.err == nil {
			g.err = fmt.Errorf("%s: %w", name, err)
		}
	})
}

// Stop cancels all actors without waiting for them.
func (g *Group) Stop() { g.cancel() }

// Wait returns when every actor has returned. Its error is the first one, with the actor's name before it; nil when all
// ended well or because they were told to. With no actors it returns at once.
func (g *Group) Wait() error {
	g.wg.Wait()
	g.cancel()
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.err
}

// Every calls fn each d, until the context ends or fn fails. A call that takes longer than d costs the ticks it missed;
// calls never overlap. The first call comes after d. It returns nil at the end of the context.
func Every(ctx context.Context, d time.Duration, fn func(context.Context) error) error {
	tick := time.NewTicker(d)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		if ctx.Err() != nil { // both were ready: the end comes first
			return nil
		}
		if err := fn(ctx); err != nil {
			return err
		}
	}
}
