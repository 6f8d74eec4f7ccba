package record

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
)

// maxHeader is the longest header line.
const maxHeader = 64 << 10

// Block is some rows of one table, checked.
type Block struct {
	Table byte
	rows  []byte
	raw   []byte
}

// Reader reads a file of rows and sums it up.
type Reader struct {
	r     *bufio.Reader
	sum   hash.Hash
	bytes int64
	rows  uint64
	spare chan []byte // memory of blocks that were decoded
}

// NewReader begins to read a file.
func NewReader(r io.Reader) *Reader {
	return &Reader{r: bufio.NewReaderSize(r, maxHeader), sum: sha256.New(), spare: make(chan []byte, 2*ahead)}
}

// Header reads the first line.
func (in *Reader) Header() ([]byte, error) {
	line, err := in.r.ReadSlice('\n')
	switch {
	case errors.Is(err, bufio.ErrBufferFull):
		return nil, errors.New("the first line is too long for a header")
	case errors.Is(err, io.EOF):
		return nil, errors.New("the file ends in its first line: it was cut")
	case err != nil:
		return nil, fmt.Errorf("reading it: %w", err)
	}
	in.count(line)
	return bytes.Clone(line), nil
}

// Bytes returns how much of the file was read.
func (in *Reader) Bytes() int64 { return in.bytes }

// Rows returns how many rows the file has, once it was read to its end.
func (in *Reader) Rows() int { return int(in.rows) }

// Sum returns the SHA-256 that the file's end holds, hexadecimal, once it was read to its end.
func (in *Reader) Sum() string { return hex.EncodeToString(in.sum.Sum(nil)) }

func (in *Reader) count(data []byte) {
	in.bytes += int64(len(data))
	in.sum.Write(data)
}

// next reads a block. Its checksum is not yet looked at, but for the end, which returns io.EOF when it is right.
func (in *Reader) next() (Block, error) {
	head := make([]byte, blockHead)
	if err := in.fill(head); err != nil {
		return Block{}, err
	}
	size := binary.LittleEndian.Uint32(head)
	if size > maxBlock {
		return Block{}, fmt.Errorf("a block of %d bytes: the file was altered", size)
	}
	raw := append(in.room(blockHead+int(size)), head...)[:blockHead+int(size)]
	if err := in.fill(raw[blockHead:]); err != nil {
		return Block{}, err
	}
	b := Block{Table: raw[4], rows: raw[blockHead:], raw: raw}
	if b.Table == endTable {
		return b, in.end(b)
	}
	in.count(raw)
	return b, nil
}

// room returns empty memory for a block.
func (in *Reader) room(size int) []byte {
	select {
	case old := <-in.spare:
		if cap(old) >= size {
			return old[:0]
		}
	default:
	}
	return make([]byte, 0, max(size, blockSize+blockSize/4))
}

// recycle takes the memory of a block that nobody looks at any more.
func (in *Reader) recycle(b Block) {
	select {
	case in.spare <- b.raw:
	default:
	}
}

func (in *Reader) fill(data []byte) error {
	_, err := io.ReadFull(in.r, data)
	switch {
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return errors.New("the file ends before its trailer: it was cut")
	case err != nil:
		return fmt.Errorf("reading it: %w", err)
	}
	return nil
}

// check holds a block against its checksum.
func (b Block) check() error {
	if want, got := binary.LittleEndian.Uint32(b.raw[5:]), checksum(b.raw); want != got {
		return fmt.Errorf("a block has the checksum %08x, but its content gives %08x: the file was altered", want, got)
	}
	return nil
}

// end holds the end against all that was before it.
func (in *Reader) end(b Block) error {
	if err := b.check(); err != nil {
		return err
	}
	if len(b.rows) != 8+sha256.Size || !bytes.Equal(b.rows[8:], in.sum.Sum(nil)) {
		return errors.New("the trailer's checksum is not that of the file: it was altered")
	}
	in.rows = binary.LittleEndian.Uint64(b.rows)
	if _, err := in.r.ReadByte(); !errors.Is(err, io.EOF) {
		return errors.New("there is more after the trailer")
	}
	in.bytes += int64(len(b.raw))
	return io.EOF
}

// page is how many bytes of rows share one piece of memory. To allocate each row and its strings alone costs more than to read them; a row that
// lives on while its neighbours are replaced keeps a page, no more.
const page = 8 << 10

// Rows reads every row of a block.
func Rows[T any](b Block, fields func(*Codec, *T)) ([]*T, error) {
	var out []*T
	for rest := b.rows; len(rest) > 0; {
		ends, err := pageOf(rest)
		if err == nil {
			err = readPage(string(rest[:ends[len(ends)-1]]), ends, &out, fields)
		}
		if err != nil {
			return nil, fmt.Errorf("row %d of a block of table %d: %w", len(out)+1, b.Table, err)
		}
		rest = rest[ends[len(ends)-1]:]
	}
	return out, nil
}

// pageOf returns where the rows of the first page end; it has at least one.
func pageOf(rows []byte) (ends []int, err error) {
	at := 0
	for at < len(rows) && at < page {
		size, n := binary.Uvarint(rows[at:])
		if n <= 0 || size > uint64(len(rows)-at-n) {
			return nil, errCut
		}
		at += n + int(size)
		ends = append(ends, at)
	}
	return ends, nil
}

func readPage[T any](text string, ends []int, out *[]*T, fields func(*Codec, *T)) error {
	var c Codec
	rows := make([]T, len(ends))
	start := 0
	for i, end := range ends {
		if err := decodeSized(&c, text[start:end], &rows[i], fields); err != nil {
			return err
		}
		*out = append(*out, &rows[i])
		start = end
	}
	return nil
}
