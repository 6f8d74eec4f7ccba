package wal

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"time"

	"github.com/hashicorp/raft"
)

const (
	frameMagic  = "bwf1"
	frameHeader = 56

	segmentMagic  = "berthlog"
	segmentFormat = 1
	segmentHeader = 16

	// maxFrame bounds what a length that was read is believed to be, in bytes. Commands are far smaller.
	maxFrame = 64 << 20
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

var errFrame = errors.New("it does not check")

// ErrDamaged is wrapped by the error for an entry that was written and is another now.
var ErrDamaged = errors.New("its checksum is not that of what is on the disk")

// frame is where an entry lies and what its header says.
type frame struct {
	size  int    // whole
	index uint64 // of the entry
	batch uint64 // index of the first entry of the same write
}

// appendFrame adds the frame of an entry that is written together with others, of which batch is the first.
func appendFrame(out []byte, l *raft.Log, batch uint64) []byte {
	start := len(out)
	var h [frameHeader]byte
	copy(h[:], frameMagic)
	le := binary.LittleEndian
	le.PutUint32(h[8:], uint32(len(l.Data)))
	le.PutUint32(h[12:], uint32(len(l.Extensions)))
	le.PutUint64(h[16:], l.Index)
	le.PutUint64(h[24:], l.Term)
	le.PutUint64(h[32:], batch)
	if !l.AppendedAt.IsZero() {
		le.PutUint64(h[40:], uint64(l.AppendedAt.UnixNano()))
	}
	h[48] = byte(l.Type)
	out = append(append(append(out, h[:]...), l.Data...), l.Extensions...)
	le.PutUint32(out[start+4:], crc32.Checksum(out[start+8:], castagnoli))
	return out
}

// frameAt reads the frame at the start of data, which may be longer.
func frameAt(data []byte) (frame, error) {
	size, err := sizeAt(data)
	if err != nil {
		return frame{}, err
	}
	le := binary.LittleEndian
	if size > len(data) || crc32.Checksum(data[8:size], castagnoli) != le.Uint32(data[4:]) {
		return frame{}, errFrame
	}
	return frame{size: size, index: le.Uint64(data[16:]), batch: le.Uint64(data[32:])}, nil
}

// sizeAt says how long the frame at the start of data is, if there is one.
func sizeAt(data []byte) (int, error) {
	if len(data) < frameHeader || string(data[:4]) != frameMagic {
		return 0, errFrame
	}
	le := binary.LittleEndian
	size := frameHeader + uint64(le.Uint32(data[8:])) + uint64(le.Uint32(data[12:]))
	if size > maxFrame {
		return 0, errFrame
	}
	return int(size), nil
}

// readEntry reads a whole frame into an entry, which keeps parts of data.
func readEntry(data []byte, index uint64, l *raft.Log) error {
	f, err := frameAt(data)
	if err != nil || f.size != len(data) || f.index != index {
		return fmt.Errorf("entry %d: %w", index, ErrDamaged)
	}
	le := binary.LittleEndian
	split := frameHeader + int(le.Uint32(data[8:]))
	*l = raft.Log{Index: index, Term: le.Uint64(data[24:]), Type: raft.LogType(data[48]), Data: data[frameHeader:split:split]}
	if split < len(data) {
		l.Extensions = data[split:]
	}
	if at := le.Uint64(data[40:]); at != 0 {
		l.AppendedAt = time.Unix(0, int64(at))
	}
	return nil
}

func newHeader() []byte {
	h := make([]byte, segmentHeader)
	copy(h, segmentMagic)
	binary.LittleEndian.PutUint32(h[len(segmentMagic):], segmentFormat)
	return h
}

func checkHeader(h []byte) error {
	if len(h) < segmentHeader || string(h[:len(segmentMagic)]) != segmentMagic {
		return errors.New("it is not a segment of Berth's log")
	}
	if v := binary.LittleEndian.Uint32(h[len(segmentMagic):]); v != segmentFormat {
		return fmt.Errorf("a newer release has written it (format %d; this one reads format %d)", v, segmentFormat)
	}
	return nil
}
