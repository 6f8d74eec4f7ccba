// Package record owns the binary form of rows and of files of rows: fields by number, blocks with checksums, a trailer that proves the file
// whole. It must never know what the rows mean, nor a clock or a disk.
//
// A file is
//
//	one line of JSON, the caller's header, which people can read with head -1
//	blocks: length of the body (4 bytes, little endian), table (1 byte), CRC-32C of both and of the body (4 bytes), body: rows, each its length (uvarint) and its fields
//	the end: a block of table 255 whose body is the number of rows (8 bytes, little endian) and the SHA-256 of every byte before the block
//
// Blocks are cut at about 256 KiB, the same for the same rows: equal rows in equal order give equal bytes.
//
// Reading is the one thing around the state machine that uses goroutines. What they do is pure, each block by itself, and the results are taken
// in the file's order, so how many there are and how fast they run cannot be told from the outcome.
package record

import "hash/crc32"

const (
	blockHead = 4 + 1 + crc32.Size
	blockSize = 256 << 10 // bytes of rows after which a block is closed
	// maxBlock bounds what a file that is no snapshot can make us hold; a row is far smaller.
	maxBlock = 64 << 20
	endTable = 255
)

// castagnoli is the polynomial of CRC-32C (RFC 3720, B.4): most CPUs have an instruction for it.
var castagnoli = crc32.MakeTable(crc32.Castagnoli)
