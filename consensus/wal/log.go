package wal

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"github.com/hashicorp/raft"
)

// fileMode keeps what the log says, secrets among it, from everyone but its owner.
const fileMode = 0o600

// segmentSize is when the next segment begins, in bytes. With raft's trailing entries some three segments are kept.
const segmentSize = 16 << 20

// ErrSync is wrapped by the error of a write whose data may or may not be on the disk, now and for ever: the kernel forgets what it could not write.
// The process must end; what a restart finds is the truth.
var ErrSync = errors.New("the disk did not sync")

// Log implements raft.LogStore on a folder. It is safe for concurrent use.
type Log struct {
	dir  string
	size int64 // of a segment

	mu       sync.RWMutex
	segments []*segment // in order, without gaps between them; never empty while there are entries
	first    uint64     // entries before it are deleted, though their segment may still be there
	buffer   []byte
	starts   []int
	broken   error // a sync that failed
}

// Open opens the log in a folder, which it makes if it is missing. The caller holds a lock on the folder.
func Open(dir string) (*Log, error) { return open(dir, segmentSize) }

func open(dir string, size int64) (*Log, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	paths, err := filepath.Glob(filepath.Join(dir, "*"+segmentSuffix))
	if err != nil {
		return nil, err
	}
	slices.Sort(paths) // the names have leading zeros
	l := &Log{dir: dir, size: size}
	for i, path := range paths {
		s, err := openSegment(path, i == len(paths)-1)
		if err == nil && i > 0 && s.first != l.last()+1 {
			err = errors.Join(fmt.Errorf("segment %s begins at entry %d, but the one before it ends at %d: a segment is missing", path, s.first, l.last()), s.file.Close())
		}
		if err != nil {
			return nil, errors.Join(err, l.Close())
		}
		l.segments = append(l.segments, s)
	}
	if len(l.segments) > 0 {
		l.first = l.segments[0].first
	}
	return l, nil
}

// Close gives the files back.
func (l *Log) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	var errs []error
	for _, s := range l.segments {
		errs = append(errs, s.file.Close())
	}
	l.segments = nil
	return errors.Join(errs...)
}

// IsMonotonic implements raft.MonotonicLogStore: raft then deletes the whole log rather than leave a gap before what it appends after a snapshot.
func (l *Log) IsMonotonic() bool { return true }

// FirstIndex implements raft.LogStore; 0 for an empty log.
func (l *Log) FirstIndex() (uint64, error) {
	l.mu.RLock()
	defer l.mu.RUnlock()
	if l.last() < l.first {
		return 0, nil
	}
	return l.first, nil
}

// LastIndex implements raft.LogStore; 0 for an empty log.
func (l *Log) LastIndex() (uint64, error) {
	l.mu.RLock()
	defer l.mu.RUnlock()
	if l.last() < l.first {
		return 0, nil
	}
	return l.last(), nil
}

// Size is how many bytes of the disk the log takes.
func (l *Log) Size() int64 {
	l.mu.RLock()
	defer l.mu.RUnlock()
	var n int64
	for _, s := range l.segments {
		n += max(s.end, s.room)
	}
	return n
}

// last is the index of the newest entry; less than first when there is none.
func (l *Log) last() uint64 {
	if len(l.segments) == 0 {
		return 0
	}
	return l.segments[len(l.segments)-1].next() - 1
}

// GetLog implements raft.LogStore. An entry that does not check is an error, never data.
func (l *Log) GetLog(index uint64, out *raft.Log) error {
	l.mu.RLock()
	defer l.mu.RUnlock()
	if index < l.first || index > l.last() || len(l.segments) == 0 {
		return raft.ErrLogNotFound
	}
	i, found := slices.BinarySearchFunc(l.segments, index, func(s *segment, index uint64) int {
		switch {
		case s.first > index:
			return 1
		case s.next() <= index:
			return -1
		}
		return 0
	})
	if !found {
		return raft.ErrLogNotFound
	}
	return l.segments[i].read(index, out)
}

// StoreLog implements raft.LogStore.
func (l *Log) StoreLog(entry *raft.Log) error { return l.StoreLogs([]*raft.Log{entry}) }

// StoreLogs implements raft.LogStore: the entries are on the disk when it returns nil, and none of them is after any other error than ErrSync. Indexes
// follow each other; a first one that does not follow the newest entry begins the log anew, because only a snapshot can lie between them.
func (l *Log) StoreLogs(entries []*raft.Log) error {
	if len(entries) == 0 {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.broken != nil {
		return l.broken
	}
	s, err := l.tail(entries[0].Index)
	if err != nil {
		return err
	}
	l.buffer, l.starts = l.buffer[:0], l.starts[:0]
	for i, e := range entries {
		if e.Index != entries[0].Index+uint64(i) {
			return fmt.Errorf("entry %d of the log cannot follow entry %d", e.Index, entries[i-1].Index)
		}
		l.starts = append(l.starts, len(l.buffer))
		l.buffer = appendFrame(l.buffer, e, entries[0].Index)
	}
	if err := s.write(l.buffer, l.starts); err != nil {
		if errors.Is(err, ErrSync) {
			l.broken = err
		}
		return fmt.Errorf("append to the log: %w", err)
	}
	return nil
}

// tail gives the segment to which the entry of an index is to be appended.
func (l *Log) tail(index uint64) (*segment, error) {
	if n := len(l.segments); n > 0 {
		s := l.segments[n-1]
		switch {
		case index < s.next():
			return nil, fmt.Errorf("entry %d is in the log already, which ends at %d", index, s.next()-1)
		case index == s.next() && s.end < l.size:
			return s, nil
		case index > s.next():
			if err := l.dropFrom(0); err != nil {
				return nil, err
			}
		default: // only the last segment may end in zeros
			if err := s.trim(); err != nil {
				return nil, err
			}
		}
	}
	s, err := createSegment(l.dir, index)
	if err != nil {
		return nil, err
	}
	if len(l.segments) == 0 {
		l.first = index
	}
	l.segments = append(l.segments, s)
	return s, nil
}

// DeleteRange implements raft.LogStore for the beginning of the log, its end, or all of it; raft deletes nothing else.
func (l *Log) DeleteRange(from, to uint64) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	last := l.last()
	switch {
	case from > to || last < l.first || to < l.first || from > last:
		return nil
	case from <= l.first && to >= last:
		return l.dropFrom(0)
	case from <= l.first:
		return l.dropBefore(to + 1)
	case to >= last:
		return l.cut(from)
	}
	return fmt.Errorf("entries %d to %d lie inside the log, %d to %d; only its beginning or its end can be deleted", from, to, l.first, last)
}

// dropBefore deletes the beginning of the log, oldest first, so that what a crash leaves is a log as well.
func (l *Log) dropBefore(index uint64) error {
	l.first = index
	n := 0
	for n < len(l.segments)-1 && l.segments[n].next() <= index {
		n++
	}
	if n == 0 {
		return nil
	}
	var errs []error
	for _, s := range l.segments[:n] {
		errs = append(errs, s.remove())
	}
	l.segments = slices.Delete(l.segments, 0, n)
	return errors.Join(append(errs, syncDir(l.dir))...)
}

// cut deletes the end of the log, newest first.
func (l *Log) cut(from uint64) error {
	i := slices.IndexFunc(l.segments, func(s *segment) bool { return s.next() > from })
	if i < 0 {
		return nil
	}
	if l.segments[i].first < from { // a part of this one stays
		i++
	}
	if err := l.dropFrom(i); err != nil || i == 0 {
		return err
	}
	return l.segments[i-1].cut(from)
}

// dropFrom deletes a segment and all after it, newest first.
func (l *Log) dropFrom(i int) error {
	var errs []error
	for n := len(l.segments) - 1; n >= i; n-- {
		errs = append(errs, l.segments[n].remove())
		l.segments = l.segments[:n]
	}
	return errors.Join(append(errs, syncDir(l.dir))...)
}

// syncDir makes names of files durable.
func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

var _ interface {
	raft.LogStore
	raft.MonotonicLogStore
} = (*Log)(nil)
