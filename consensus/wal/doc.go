// Package wal keeps raft's log in files that are only appended to: one write and one sync for everything that is stored together. It owns the form of
// those files, what is found again after a crash, and the difference between a write that was cut short and data that has rotted. It must never know
// what an entry says, terms and votes (those are in another store), or raft's rules about what may be written when.
//
// A log is a folder of segments, each named after the index of its first entry. A segment is a header and frames; a frame is one entry:
//
//	offset size
//	     0    4  magic "bwf1"
//	     4    4  CRC-32C of everything after it, to the end of the frame
//	     8    4  bytes of data
//	    12    4  bytes of extensions
//	    16    8  index
//	    24    8  term
//	    32    8  index of the first entry that was written in the same write
//	    40    8  when it was appended, Unix nanoseconds; 0: not said
//	    48    1  type
//	    49    7  zero
//	    56       data, extensions
//
// Numbers are little endian. The header of a segment is "berthlog", the format as four bytes, and zeros up to 16 bytes.
//
// # After a crash
//
// The last segment may end in zeros, which were put there to be overwritten.
//
// What was synced is there. Of the last write, which nobody was told of, a part may be missing at any place: it is cut off. A frame that does not
// check although a later write follows it was synced once, so the disk has lied: the log is refused, and its peer must be seeded anew. The same
// damage inside the last write cannot be told from a write that was cut short.
package wal
