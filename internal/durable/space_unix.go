//go:build darwin || freebsd || linux

package durable

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// Space is what the file system of a directory has, in bytes: free for us, and in all. Ok is false where that cannot be found out.
func Space(dir string) (free, total uint64, ok bool, err error) {
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		return 0, 0, false, fmt.Errorf("free space of %s: %w", dir, err)
	}
	// Bavail leaves out what is kept for root, and is signed on some systems.
	return uint64(max(0, int64(st.Bavail))) * uint64(st.Bsize), st.Blocks * uint64(st.Bsize), true, nil
}
