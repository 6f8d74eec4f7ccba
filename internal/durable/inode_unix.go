//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package durable

import (
	"os"
	"syscall"
)

// inode is a file's number in its file system.
func inode(path string) (uint64, error) {
	info, err := os.Stat(path)
	if err != nil {
		return 0, err
	}
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		return uint64(st.Ino), nil // 32 bits wide on some systems
	}
	return 0, nil
}
