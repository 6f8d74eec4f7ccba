package record

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"hash"
	"hash/crc32"
	"io"
)

// Writer writes a file of rows. It keeps the first error, so that tables can be written as a list; End returns it.
type Writer struct {
	w     io.Writer
	sum   hash.Hash
	block []byte // head and body of the block being filled
	row   []byte // scratch
	codec Codec
	rows  uint64
	err   error
}

// NewWriter begins a file with a header, one line of JSON with its end.
func NewWriter(w io.Writer, header []byte) *Writer {
	out := &Writer{w: w, sum: sha256.New(), block: make([]byte, blockHead, blockSize+blockSize/4)}
	out.write(header)
	return out
}

// Row adds a row to a table. Tables must come in ascending order, 1 to 254, and rows in order of key.
func Row[T any](out *Writer, table byte, row *T, fields func(*Codec, *T)) {
	if out.err != nil {
		return
	}
	if out.block[4] != table {
		out.flush()
		out.block[4] = table
	}
	out.rows++
	out.row = encode(&out.codec, out.row[:0], row, fields)
	out.block = append(binary.AppendUvarint(out.block, uint64(len(out.row))), out.row...)
	if len(out.block) >= blockSize {
		out.flush()
	}
}

// End closes the file, and returns the SHA-256 of what is before the end, hexadecimal.
func (out *Writer) End() (sum string, err error) {
	out.flush()
	digest := out.sum.Sum(nil)
	out.block[4] = endTable
	out.block = append(binary.LittleEndian.AppendUint64(out.block, out.rows), digest...)
	out.flush()
	return hex.EncodeToString(digest), out.err
}

// flush writes the block, if there is something in it.
func (out *Writer) flush() {
	body := len(out.block) - blockHead
	if body == 0 {
		return
	}
	if body > maxBlock && out.err == nil {
		out.err = fmt.Errorf("a row of %d bytes; at most %d can be read back", body, maxBlock)
	}
	binary.LittleEndian.PutUint32(out.block, uint32(body))
	binary.LittleEndian.PutUint32(out.block[5:], checksum(out.block))
	out.write(out.block)
	out.block = out.block[:blockHead]
}

// checksum covers a block but for the checksum's own place.
func checksum(block []byte) uint32 {
	return crc32.Update(crc32.Checksum(block[:5], castagnoli), castagnoli, block[blockHead:])
}

func (out *Writer) write(data []byte) {
	if out.err != nil {
		return
	}
	out.sum.Write(data)
	_, out.err = out.w.Write(data)
}
