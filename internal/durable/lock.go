package durable

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// lockName is the file in a data directory that its process holds a lock on. It stays when the process ends: to remove
// it could let two processes lock two files of one name.
const lockName = "LOCK"

// ErrLocked is wrapped by the error for a data directory that another process uses.
var ErrLocked = errors.New("data directory in use")

// DirLock is the right of this process to a data directory. The kernel takes it back when the process ends, however it
// ends. Its owner keeps it until Unlock: a lock that nobody refers to any more is closed by the garbage collector.
type DirLock struct{ file *os.File }

// LockDir takes the data directory, which must exist, without waiting. If it is taken, the error wraps [ErrLocked] and
// names the directory and the process that has it. It works on local file systems; on network ones as far as their
// flock does.
func LockDir(dir string) (*DirLock, error) {
	path := filepath.Join(dir, lockName)
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, FileMode)
	if err != nil {
		return nil, fmt.Errorf("lock data directory: %w", err)
	}
	if err := flock(f); err != nil {
		defer f.Close()
		if errors.Is(err, errHeld) {
			return nil, fmt.Errorf("%w: %s is held by process %s; stop it or choose another with --data-dir",
				ErrLocked, dir, holder(f))
		}
		return nil, fmt.Errorf("lock data directory %s: %w", dir, err)
	}
	if err := sign(f); err != nil {
		_ = f.Close()
		return nil, fmt.Errorf("lock data directory %s: %w", dir, err)
	}
	return &DirLock{f}, nil
}

// Unlock gives the directory back.
func (l *DirLock) Unlock() error { return l.file.Close() }

// errHeld is what flock gives when another process has the lock.
var errHeld = errors.New("held")

// sign leaves this process's number for the error of the next.
func sign(f *os.File) error {
	if err := f.Chmod(FileMode); err != nil {
		return err
	}
	if err := f.Truncate(0); err != nil {
		return err
	}
	_, err := f.WriteAt([]byte(strconv.Itoa(os.Getpid())+"\n"), 0)
	return err
}

func holder(f *os.File) string {
	text, err := io.ReadAll(io.LimitReader(f, 32))
	pid := strings.TrimSpace(string(text))
	if _, bad := strconv.Atoi(pid); err != nil || bad != nil {
		return "(unknown)" // between its lock and its signature
	}
	return pid
}
