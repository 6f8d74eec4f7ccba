//go:build unix

package durable

import (
	"errors"
	"fmt"
	"os"
	"syscall"
)

// syncDir makes the names in a directory durable. File systems that cannot do it (some network ones) say EINVAL, and
// there is nothing more to be had from them.
func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return fmt.Errorf("sync directory: %w", err)
	}
	defer d.Close()
	if err := d.Sync(); err != nil && !errors.Is(err, syscall.EINVAL) {
		return fmt.Errorf("sync directory: %w", err)
	}
	return nil
}
