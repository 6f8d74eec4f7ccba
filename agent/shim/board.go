package shim

import (
	"context"
	"sync"
	"time"
)

// board holds the status and wakes who waits for a newer one.
type board struct {
	mu      sync.Mutex
	status  Status
	loading time.Time // when the engine that loads was started; zero: none does
	renewed chan struct{}
}

func newBoard(first Status) *board { return &board{status: first, renewed: make(chan struct{})} }

// say changes the status in one step; nobody sees it half changed.
func (b *board) say(change func(*Status)) {
	b.mu.Lock()
	defer b.mu.Unlock()
	change(&b.status)
	b.status.Version++
	close(b.renewed)
	b.renewed = make(chan struct{})
}

func (b *board) load(since time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.loading = since
}

func (b *board) now() (Status, <-chan struct{}) {
	b.mu.Lock()
	defer b.mu.Unlock()
	s := b.status
	if s.Phase == Starting && !b.loading.IsZero() {
		age := time.Since(b.loading).Seconds()
		s.StartingAge = &age
	}
	return s, b.renewed
}

// wait gives the status once it is newer than after, or as it is when the context ends.
func (b *board) wait(ctx context.Context, after uint64) Status {
	for {
		s, renewed := b.now()
		if s.Version > after {
			return s
		}
		select {
		case <-renewed:
		case <-ctx.Done():
			return s
		}
	}
}
