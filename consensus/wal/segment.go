package wal

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/hashicorp/raft"
)

const segmentSuffix = ".seg"

// segment is one file. Its frames end at end: what lies behind it is no part of the log.
type segment struct {
	path   string
	file   *os.File
	first  uint64  // index of its first entry, which need not be there yet
	starts []int64 // offset of each frame
	end    int64
	room   int64 // the file is so long: behind end it has zeros
}

// roomAhead is by how much a file is made longer than it need be, in bytes: a sync that has not to note a new length as well costs half as much.
const roomAhead = 1 << 20

func segmentPath(dir string, first uint64) string {
	return filepath.Join(dir, fmt.Sprintf("%020d%s", first, segmentSuffix))
}

// segmentFirst reads the name of a segment.
func segmentFirst(path string) (uint64, bool) {
	name, ok := strings.CutSuffix(filepath.Base(path), segmentSuffix)
	first, err := strconv.ParseUint(name, 10, 64)
	return first, ok && err == nil
}

// createSegment makes an empty segment. It and its name are on the disk when it returns.
func createSegment(dir string, first uint64) (_ *segment, err error) {
	s := &segment{path: segmentPath(dir, first), first: first, end: segmentHeader}
	if s.file, err = os.OpenFile(s.path, os.O_RDWR|os.O_CREATE|os.O_TRUNC, fileMode); err != nil {
		return nil, err
	}
	_, err = s.file.WriteAt(newHeader(), 0)
	if err == nil {
		err = s.file.Sync()
	}
	if err == nil {
		err = syncDir(dir)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("begin a segment of the log: %w", err), s.file.Close(), os.Remove(s.path))
	}
	return s, nil
}

// openSegment reads a segment through. Only the last one may end in a write that was cut short, which is then cut off.
func openSegment(path string, last bool) (*segment, error) {
	first, ok := segmentFirst(path)
	if !ok {
		return nil, fmt.Errorf("%s is not named as a segment of the log", path)
	}
	file, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	s := &segment{path: path, file: file, first: first}
	if err := s.scan(last); err != nil {
		return nil, errors.Join(fmt.Errorf("segment %s: %w", path, err), file.Close())
	}
	return s, nil
}

func (s *segment) scan(last bool) error {
	data, err := io.ReadAll(s.file)
	if err != nil {
		return err
	}
	if last && len(data) <= segmentHeader && !bytes.Equal(data, newHeader()) { // it was being made
		data = newHeader()
		if _, err := s.file.WriteAt(data, 0); err != nil {
			return err
		}
	}
	if err := checkHeader(data); err != nil {
		return err
	}
	s.end = segmentHeader
	var batch uint64
	for s.end < int64(len(data)) {
		f, err := frameAt(data[s.end:])
		if err != nil || f.index != s.next() || f.batch > f.index || f.batch < batch {
			return s.tear(data, last)
		}
		batch = f.batch
		s.starts = append(s.starts, s.end)
		s.end += int64(f.size)
	}
	return nil
}

// tear cuts off what was written last and not completely. What follows a frame that does not check tells the two apart: see the package comment.
func (s *segment) tear(data []byte, last bool) error {
	at := s.next()
	rest := data[s.end:]
	for i := 1; i < len(rest); i++ {
		next := bytes.Index(rest[i:], []byte(frameMagic))
		if next < 0 {
			break
		}
		i += next
		if f, err := frameAt(rest[i:]); err == nil && f.batch > at {
			last = false
			break
		}
	}
	if !last {
		return fmt.Errorf("entry %d is damaged although it was written whole", at)
	}
	return s.trim()
}

// next is the index of the entry that would be appended.
func (s *segment) next() uint64 { return s.first + uint64(len(s.starts)) }

// write appends frames that begin at the given lengths into data, and syncs. After an error nothing has been appended.
func (s *segment) write(data []byte, starts []int) error {
	if need := s.end + int64(len(data)); need > s.room && preallocate(s.file, s.end, int64(len(data))+roomAhead) == nil {
		s.room = need + roomAhead // without it the write itself says what is wrong
	}
	_, err := s.file.WriteAt(data, s.end)
	if err != nil {
		// What was written of it must not be found behind the next write.
		return errors.Join(err, s.trim())
	}
	if err := syncData(s.file); err != nil {
		return fmt.Errorf("%w: %w", ErrSync, err)
	}
	for _, at := range starts {
		s.starts = append(s.starts, s.end+int64(at))
	}
	s.end += int64(len(data))
	return nil
}

func (s *segment) read(index uint64, l *raft.Log) error {
	i := int(index - s.first)
	end := s.end
	if i+1 < len(s.starts) {
		end = s.starts[i+1]
	}
	data := make([]byte, end-s.starts[i])
	if _, err := s.file.ReadAt(data, s.starts[i]); err != nil {
		return fmt.Errorf("read entry %d of the log: %w", index, err)
	}
	return readEntry(data, index, l)
}

// trim cuts off what lies behind the end.
func (s *segment) trim() error {
	if err := s.file.Truncate(s.end); err != nil {
		return err
	}
	s.room = s.end
	return s.file.Sync()
}

// cut removes the entry of an index and all after it.
func (s *segment) cut(index uint64) error {
	i := int(index - s.first)
	if i >= len(s.starts) {
		return nil
	}
	s.end, s.starts = s.starts[i], s.starts[:i]
	return s.trim()
}

// remove deletes the file; the folder is still to be synced.
func (s *segment) remove() error { return errors.Join(s.file.Close(), os.Remove(s.path)) }
