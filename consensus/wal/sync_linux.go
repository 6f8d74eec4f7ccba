package wal

import (
	"os"

	"golang.org/x/sys/unix"
)

// syncData makes what was written durable, and the file's length where that has changed, but not its times.
func syncData(f *os.File) error {
	for {
		err := unix.Fdatasync(int(f.Fd()))
		if err != unix.EINTR {
			return err
		}
	}
}

// preallocate makes a file longer, with zeros.
func preallocate(f *os.File, from, size int64) error {
	return unix.Fallocate(int(f.Fd()), 0, from, size)
}
