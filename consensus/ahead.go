package consensus

import (
	"slices"
	"sync"
	"sync/atomic"

	"github.com/hashicorp/raft"
)

// ahead lets a leader write an entry while its followers write it, instead of before: raft sends an entry only when its own log has taken it, and so
// makes each write wait for two disks in turn. The log of a leader therefore takes entries at once and writes them on another goroutine.
//
// What makes that safe: raft counts the leader's own log as soon as it has taken an entry, but commits only with a follower's answer besides, and an
// answer is held back until the entry is on the leader's disk too (transport.AppendEntries). So nothing is committed that is not on the disks of a
// quorum, the leader's among them, as before (raft thesis, §10.2.1, asks for less). It follows when nothing may be taken ahead:
//
//   - by anyone but a leader with at least one other voter: a follower's answer is its word that the entry is on its disk, and a leader alone asks nobody;
//   - an entry that is no command: what changes the configuration may take that other voter away;
//   - and what a leader has taken ahead must be on the disk before it is anything to a peer that leads no more: its answer to the next leader counts.
type ahead struct {
	raft.LogStore                             // where entries are written to
	leads         atomic.Pointer[func() bool] // nil until raft runs
	failed        func(error)                 // told of a write that failed on the goroutine of run

	writing chan struct{} // held by who writes
	more    chan struct{} // there is something to write

	mu      sync.Mutex
	queue   []*raft.Log   // taken and not written yet, one after the other
	written chan struct{} // closed when some of it has been written
}

// aheadLimit is how many entries are taken ahead at most; beyond it raft waits for the disk, as it does without.
const aheadLimit = 4096

func newAhead(below raft.LogStore, failed func(error)) *ahead {
	return &ahead{LogStore: below, failed: failed, writing: make(chan struct{}, 1), more: make(chan struct{}, 1), written: make(chan struct{})}
}

// run writes what was taken until done.
func (a *ahead) run(done <-chan struct{}) {
	for {
		select {
		case <-a.more:
		case <-done:
			return
		}
		if err := a.flush(a.newest()); err != nil {
			a.failed(err)
		}
	}
}

// may says whether a command may be taken ahead now.
func (a *ahead) may() bool {
	leads := a.leads.Load()
	return leads != nil && (*leads)()
}

// leadsOthers says whether this peer leads, with another voter beside it. raft stores entries on the goroutine that changes its state and its
// configuration, so both are exact when raft itself asks.
func leadsOthers(r *raft.Raft) bool {
	if r.State() != raft.Leader {
		return false
	}
	f := r.GetConfiguration() // from memory
	if f.Error() != nil {
		return false
	}
	voters := 0
	for _, s := range f.Configuration().Servers {
		if s.Suffrage == raft.Voter {
			voters++
		}
	}
	return voters > 1
}

// StoreLog implements raft.LogStore.
func (a *ahead) StoreLog(l *raft.Log) error { return a.StoreLogs([]*raft.Log{l}) }

// StoreLogs implements raft.LogStore.
func (a *ahead) StoreLogs(logs []*raft.Log) error {
	other := func(l *raft.Log) bool { return l.Type != raft.LogCommand }
	if a.may() && !slices.ContainsFunc(logs, other) && a.take(logs) {
		return nil
	}
	if err := a.flush(a.newest()); err != nil {
		return err
	}
	return a.LogStore.StoreLogs(logs)
}

// take puts entries into the queue, unless it is full.
func (a *ahead) take(logs []*raft.Log) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.queue)+len(logs) > aheadLimit {
		return false
	}
	a.queue = append(a.queue, logs...)
	select {
	case a.more <- struct{}{}:
	default:
	}
	return true
}

// newest is the index of the newest entry that is not written yet; 0 if all are.
func (a *ahead) newest() uint64 {
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.queue) == 0 {
		return 0
	}
	return a.queue[len(a.queue)-1].Index
}

// flush returns when everything up to an index is on the disk. An error leaves in the queue what could not be written.
func (a *ahead) flush(index uint64) error {
	for {
		waiting, written := a.waiting(index)
		if !waiting {
			return nil
		}
		select {
		case <-written: // by somebody else
		case a.writing <- struct{}{}:
			err := a.write(index)
			<-a.writing
			if err != nil {
				return err
			}
		}
	}
}

// waiting says whether anything up to an index is still to be written; the channel is closed when something has been.
func (a *ahead) waiting(index uint64) (bool, <-chan struct{}) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.queue) > 0 && a.queue[0].Index <= index, a.written
}

// write writes everything there is, unless the index has been written meanwhile: one sync is as good for all. The caller holds writing.
func (a *ahead) write(index uint64) error {
	a.mu.Lock()
	logs := slices.Clone(a.queue)
	a.mu.Unlock()
	if len(logs) == 0 || logs[0].Index > index {
		return nil
	}
	if err := a.LogStore.StoreLogs(logs); err != nil {
		return err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.queue = a.queue[len(logs):]
	close(a.written)
	a.written = make(chan struct{})
	return nil
}

// GetLog implements raft.LogStore. A peer that leads no more looks into its log to answer its new leader.
func (a *ahead) GetLog(index uint64, out *raft.Log) error {
	if l := a.taken(index); l != nil {
		if a.may() {
			*out = *l
			return nil
		}
		if err := a.flush(index); err != nil {
			return err
		}
	}
	return a.LogStore.GetLog(index, out)
}

func (a *ahead) taken(index uint64) *raft.Log {
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.queue) == 0 || index < a.queue[0].Index || index > a.queue[len(a.queue)-1].Index {
		return nil
	}
	return a.queue[index-a.queue[0].Index]
}

// LastIndex implements raft.LogStore.
func (a *ahead) LastIndex() (uint64, error) {
	if last := a.newest(); last > 0 {
		return last, nil
	}
	return a.LogStore.LastIndex()
}

// DeleteRange implements raft.LogStore.
func (a *ahead) DeleteRange(from, to uint64) error {
	if err := a.flush(a.newest()); err != nil {
		return err
	}
	return a.LogStore.DeleteRange(from, to)
}

// IsMonotonic implements raft.MonotonicLogStore.
func (a *ahead) IsMonotonic() bool {
	m, ok := a.LogStore.(raft.MonotonicLogStore)
	return ok && m.IsMonotonic()
}
