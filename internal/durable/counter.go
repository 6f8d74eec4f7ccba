package durable

import (
	"errors"
	"fmt"
	"io/fs"
	"math"
	"sync"
)

const counterVersion = 1

type counterFile struct {
	Value uint64 `json:"value"`
}

// Counter is a number on disk that only grows, such as the count of a process's starts. It is safe for concurrent use
// within a process; between processes the lock of the data directory must see to that.
type Counter struct {
	path string
	mu   sync.Mutex
}

// NewCounter gives the counter kept at path. It touches nothing yet.
func NewCounter(path string) *Counter { return &Counter{path: path} }

// Next gives the next number, 1 at first. It is on disk before it is given, so no number is ever given twice; after a
// crash one may be skipped. A file that cannot be understood is an error: to begin again could repeat a number.
func (c *Counter) Next() (uint64, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return NextCounter(c.path)
}

// ReadCounter gives the newest number of the counter kept at path; 0 if there was none yet.
func ReadCounter(path string) (uint64, error) {
	var f counterFile
	if err := ReadJSON(path, counterVersion, &f); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return 0, fmt.Errorf("counter: %w", err)
	}
	return f.Value, nil
}

// NextCounter is Next for a counter used once, as the number of this start is. Concurrent calls for one path need a
// [Counter].
func NextCounter(path string) (uint64, error) {
	var f counterFile
	if err := ReadJSON(path, counterVersion, &f); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return 0, fmt.Errorf("counter: %w", err)
	}
	if f.Value == math.MaxUint64 {
		return 0, fmt.Errorf("counter: %s is at its end", path)
	}
	f.Value++
	if err := WriteJSON(path, counterVersion, f); err != nil {
		return 0, fmt.Errorf("counter: %w", err)
	}
	return f.Value, nil
}
