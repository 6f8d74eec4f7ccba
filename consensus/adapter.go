package consensus

import (
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"

	"github.com/hashicorp/raft"

	"berth/fsm"
)

// errStopped is what raft gets from a machine that has met an entry it cannot apply.
var errStopped = errors.New("the state machine has stopped")

// adapter is the state machine as raft sees it. raft calls it from one goroutine, but for Persist.
type adapter struct {
	machine *fsm.Machine
	fatal   func(error)
	member  func(raft.Configuration) // told of each committed configuration
	taken   func() error             // told when a snapshot was taken up; nil: nobody is

	proposals proposals // made by this peer

	// stopped keeps the state where it is: neither a later entry nor a snapshot may follow what could not be applied.
	stopped atomic.Bool
	seen    atomic.Uint64 // index of the last entry that came through here
	// restored says that a snapshot was taken up whose index has not been seen yet: raft does not tell it here.
	restored atomic.Bool

	mu   sync.Mutex
	wake chan struct{} // closed at the next entry or restore; nil while nobody waits
}

// Apply implements raft.FSM; the answer is an fsm.Outcome or an error.
func (a *adapter) Apply(l *raft.Log) any {
	if a.stopped.Load() {
		return errStopped
	}
	out, err := a.apply(l)
	if err != nil {
		a.stopped.Store(true)
		err = fmt.Errorf("cannot apply entry %d (term %d); this peer stops before it diverges: %w", l.Index, l.Term, err)
		a.fatal(err)
		return err
	}
	a.advance(l.Index)
	return out
}

func (a *adapter) apply(l *raft.Log) (fsm.Outcome, error) {
	if e := a.proposals.take(l.Data); e != nil {
		return a.machine.ApplyEntry(l.Index, e)
	}
	return a.machine.Apply(l.Index, l.Data)
}

// StoreConfiguration implements raft.ConfigurationStore, so that no entry but the empty ones goes by unseen.
func (a *adapter) StoreConfiguration(index uint64, c raft.Configuration) {
	if a.stopped.Load() {
		return
	}
	a.member(c)
	a.advance(index)
}

func (a *adapter) advance(index uint64) {
	a.seen.Store(index)
	a.notify()
}

func (a *adapter) notify() {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.wake != nil {
		close(a.wake)
		a.wake = nil
	}
}

// next is closed at the next entry or restore.
func (a *adapter) next() <-chan struct{} {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.wake == nil {
		a.wake = make(chan struct{})
	}
	return a.wake
}

// Snapshot implements raft.FSM: states are immutable, so a pointer is enough.
func (a *adapter) Snapshot() (raft.FSMSnapshot, error) {
	if a.stopped.Load() {
		return nil, errStopped
	}
	return image{a.machine.State()}, nil
}

// Restore implements raft.FSM. The machine builds the new state aside and swaps it in whole. A snapshot that it refuses
// has passed raft's own checksum, so a newer program wrote it: this peer cannot follow the cluster.
func (a *adapter) Restore(r io.ReadCloser) error {
	defer r.Close()
	if a.stopped.Load() {
		return errStopped
	}
	if err := a.machine.Restore(r); err != nil {
		a.fatal(fmt.Errorf("cannot take a snapshot: %w", err))
		return err
	}
	if a.taken != nil {
		if err := a.taken(); err != nil {
			return err
		}
	}
	a.restored.Store(true)
	a.notify()
	return nil
}

// image is a state on its way to a snapshot.
type image struct{ state *fsm.State }

// Persist implements raft.FSMSnapshot. The first error is the one returned: a cancelled snapshot must not pass for one.
func (i image) Persist(sink raft.SnapshotSink) error {
	if err := i.state.WriteSnapshot(sink); err != nil {
		return errors.Join(fmt.Errorf("write snapshot: %w", err), sink.Cancel())
	}
	return sink.Close()
}

// Release implements raft.FSMSnapshot.
func (image) Release() {}
