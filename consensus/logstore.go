package consensus

import (
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/hashicorp/raft"

	"berth/consensus/wal"
	"berth/fsm"
)

// backing is where log, term and vote are kept: see openLog, and raft's memory store.
type backing interface {
	raft.LogStore
	raft.StableStore
}

// guardedStore stands between raft and the disk. It ends the peer when a write is stuck, when a read gives something
// that was never written, or when term or vote cannot be saved; raft itself has an answer only to a failed append, which
// is to step down.
type guardedStore struct {
	backing
	log    *slog.Logger
	before func() error
	fatal  func(error)
	full   func() // told when there is no room; nil: nobody is
	// cut says that the end of the log was taken away and what comes in its place is not written yet.
	cut atomic.Bool
}

// GetLog reads an entry to be sent or applied and checks it. raft panics on an error from here while it applies, so a
// rotten entry is reported, and then given as it is, or an empty one in its place: by then this peer's port is shut and
// its machine stopped, and both the machine and a follower's StoreLogs check again.
func (s *guardedStore) GetLog(index uint64, out *raft.Log) error {
	err := s.backing.GetLog(index, out)
	switch {
	case errors.Is(err, wal.ErrDamaged):
		*out = raft.Log{Index: index, Type: raft.LogNoop}
	case err != nil:
		return err
	default:
		err = checkEntry(index, out)
	}
	if err != nil {
		s.fatal(fmt.Errorf("the log on disk is damaged: %w", err))
	}
	return nil
}

// IsMonotonic implements raft.MonotonicLogStore: whether raft must leave no gap in the log.
func (s *guardedStore) IsMonotonic() bool {
	m, ok := s.backing.(raft.MonotonicLogStore)
	return ok && m.IsMonotonic()
}

func checkEntry(index uint64, l *raft.Log) error {
	if l.Index != index {
		return fmt.Errorf("entry %d says that it is entry %d", index, l.Index)
	}
	if l.Type != raft.LogCommand {
		return nil
	}
	if err := fsm.Verify(l.Data); err != nil {
		return fmt.Errorf("entry %d: %w", index, err)
	}
	return nil
}

func (s *guardedStore) StoreLog(l *raft.Log) error { return s.StoreLogs([]*raft.Log{l}) }

// StoreLogs refuses what arrived damaged: the fault is then the sender's, or the network's, and it will be sent again. It ends the peer when it
// fails after the end of the log was cut off: raft goes on to believe in entries that are gone, and would refuse whatever its leader sends for ever.
func (s *guardedStore) StoreLogs(logs []*raft.Log) error {
	err := s.storeLogs(logs)
	if err == nil {
		s.cut.Store(false)
	} else if s.cut.Load() {
		s.fatal(fmt.Errorf("the end of the log was cut off and what comes in its place could not be written; a restart reads what there is: %w", err))
	}
	return err
}

func (s *guardedStore) storeLogs(logs []*raft.Log) error {
	for _, l := range logs {
		if err := checkEntry(l.Index, l); err != nil {
			return err
		}
	}
	err := s.write("append to the log", func() error { return s.backing.StoreLogs(logs) })
	if errors.Is(err, wal.ErrSync) {
		s.fatal(err) // nobody can say any more what is on the disk
	}
	return err
}

func (s *guardedStore) DeleteRange(from, to uint64) error {
	last, err := s.backing.LastIndex()
	if err != nil {
		return err
	}
	if err := s.write("truncate the log", func() error { return s.backing.DeleteRange(from, to) }); err != nil {
		return err
	}
	if to >= last && last > 0 {
		s.cut.Store(true)
	}
	return nil
}

func (s *guardedStore) Set(key, value []byte) error {
	return s.save(key, func() error { return s.backing.Set(key, value) })
}

func (s *guardedStore) SetUint64(key []byte, value uint64) error {
	return s.save(key, func() error { return s.backing.SetUint64(key, value) })
}

// save writes term or vote. raft panics where that fails. A vote that is not on disk must not be given, so the peer
// ends; nil is safe to return because nothing can leave its port any more.
func (s *guardedStore) save(key []byte, do func() error) error {
	if err := s.write("save "+string(key), do); err != nil {
		s.fatal(fmt.Errorf("save %s: %w", key, err))
	}
	return nil
}

// write runs one write under the watchdog.
func (s *guardedStore) write(what string, do func() error) error {
	defer s.watch(what)()
	err := s.attempt(do)
	if errors.Is(err, syscall.ENOSPC) && s.full != nil {
		s.full()
	}
	return err
}

func (s *guardedStore) attempt(do func() error) error {
	if s.before != nil {
		if err := s.before(); err != nil {
			return err
		}
	}
	return do()
}

// watch warns of a write that is slow and ends the peer for one that is stuck. Its error would not do: the stuck write
// can still land later, under an index that raft then takes for free.
func (s *guardedStore) watch(what string) (done func()) {
	start := time.Now()
	slow := time.AfterFunc(slowWrite, func() { s.log.Warn("the disk is slow", "write", what, "since", slowWrite) })
	stuck := time.AfterFunc(stuckWrite, func() { s.fatal(fmt.Errorf("%s: the disk is stuck for %v", what, stuckWrite)) })
	return func() {
		stuck.Stop()
		if !slow.Stop() {
			s.log.Warn("the disk answered again", "write", what, "took", time.Since(start))
		}
	}
}
