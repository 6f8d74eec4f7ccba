package wal

import (
	"errors"
	"fmt"
	"os"

	"github.com/hashicorp/raft"
)

// Replace puts another entry in the place of the one of its index. It writes the segment anew beside the old one: after a crash it is the one or the
// other. It is for the repair of a log that nobody uses.
func (l *Log) Replace(entry *raft.Log) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	for i, s := range l.segments {
		if s.first <= entry.Index && entry.Index < s.next() {
			changed, err := s.replaced(l.dir, entry)
			if err != nil {
				return err
			}
			l.segments[i] = changed
			return nil
		}
	}
	return raft.ErrLogNotFound
}

// replaced closes the segment and opens what takes its place.
func (s *segment) replaced(dir string, entry *raft.Log) (*segment, error) {
	data := make([]byte, s.end)
	if _, err := s.file.ReadAt(data, 0); err != nil {
		return nil, err
	}
	i := int(entry.Index - s.first)
	from, to := s.starts[i], s.end
	if i+1 < len(s.starts) {
		to = s.starts[i+1]
	}
	old, err := frameAt(data[from:to])
	if err != nil {
		return nil, fmt.Errorf("entry %d of the log: %w", entry.Index, err)
	}
	out := appendFrame(append([]byte(nil), data[:from]...), entry, old.batch)
	if err := writeBeside(s.path, append(out, data[to:]...)); err != nil {
		return nil, err
	}
	if err := errors.Join(syncDir(dir), s.file.Close()); err != nil {
		return nil, err
	}
	return openSegment(s.path, true)
}

// writeBeside writes a file whole before it takes the name of the old one.
func writeBeside(path string, data []byte) error {
	tmp := path + ".tmp"
	f, err := os.OpenFile(tmp, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, fileMode)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(tmp, path)
	}
	if err != nil {
		return errors.Join(fmt.Errorf("write %s anew: %w", path, err), os.RemoveAll(tmp))
	}
	return nil
}
