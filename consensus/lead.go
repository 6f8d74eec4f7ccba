package consensus

import (
	"context"
	"sync"
	"time"
)

// leadership is the latest word of raft about leading. raft blocks while it writes to its notification channel, so
// someone must always read it and do nothing else; this cell is where that reader puts what it reads. Each change has
// its own number, so that leadership lost and regained in between is not taken for leadership kept.
type leadership struct {
	mu      sync.Mutex
	change  uint64
	leading bool
	changed chan struct{}
}

func newLeadership() *leadership { return &leadership{changed: make(chan struct{})} }

func (l *leadership) set(leading bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.change++
	l.leading = leading
	close(l.changed)
	l.changed = make(chan struct{})
}

// renew makes leadership that is held a new one, so that duties begin anew.
func (l *leadership) renew() {
	if _, leading, _ := l.get(); leading {
		l.set(true)
	}
}

func (l *leadership) get() (change uint64, leading bool, changed <-chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.change, l.leading, l.changed
}

// drain reads raft's channel until done.
func (l *leadership) drain(notify <-chan bool, done <-chan struct{}) {
	for {
		select {
		case leading := <-notify:
			l.set(leading)
		case <-done:
			return
		}
	}
}

// won waits until this peer leads and gives the number of that change.
func (l *leadership) won(ctx context.Context) (uint64, error) {
	for {
		change, leading, changed := l.get()
		if leading {
			return change, nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return 0, ctx.Err()
		}
	}
}

// lost waits until the given change is over.
func (l *leadership) lost(ctx context.Context, change uint64) {
	for {
		now, _, changed := l.get()
		if now != change {
			return
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return
		}
	}
}

// Lead runs duties once in every term that this peer leads, until the context ends. They begin when everything that was
// committed before the term has been applied here; their context ends with the leadership, and the next term waits
// until they have returned. Duties that return nil early are done for that term. Their error, while they should still
// run, ends Lead; what they return after the end of their context says nothing.
func (n *Node) Lead(ctx context.Context, duties func(ctx context.Context, term uint64) error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(n.ctx, cancel)()
	for ctx.Err() == nil {
		change, err := n.leadership.won(ctx)
		if err != nil {
			return nil
		}
		if err := n.reign(ctx, change, duties); err != nil {
			return err
		}
	}
	return nil
}

// stepDown ends this peer's leadership because its log could not be written. Raft does that when an entry of its own is not taken, and a barrier is
// one that is never taken ahead of the disk.
func (n *Node) stepDown(err error) {
	n.cfg.Log.Error("the log could not be written", "peer", n.cfg.ID, "error", err)
	if n.IsLeader() {
		n.spawnOn(&n.calls, func() { _ = n.raft.Barrier(n.cfg.Timings.Wait).Error() })
	}
}

// reign is one term.
func (n *Node) reign(ctx context.Context, change uint64, duties func(context.Context, uint64) error) error {
	ctx, cancel := context.WithCancel(ctx)
	var watch sync.WaitGroup
	watch.Go(func() { n.leadership.lost(ctx, change); cancel() })
	defer watch.Wait()
	defer cancel()

	term := n.raft.CurrentTerm()
	for n.barrier(ctx) != nil { // lost, or a quorum that takes long: only the context tells
		if pause(ctx, 100*time.Millisecond); ctx.Err() != nil {
			return nil
		}
	}
	if now, _, _ := n.leadership.get(); now != change || n.raft.CurrentTerm() != term {
		return nil
	}
	n.established.Store(term)
	n.caughtUp.Store(true)
	n.cfg.Log.Info("leading", "term", term)
	err := duties(ctx, term)
	if ctx.Err() != nil {
		return nil
	}
	if err == nil {
		<-ctx.Done()
	}
	return err
}
