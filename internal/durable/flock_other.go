//go:build !(darwin || dragonfly || freebsd || linux || netbsd || openbsd)

package durable

import (
	"errors"
	"os"
)

// flock refuses: no process with a data directory runs on these systems, only the operator's command line.
func flock(*os.File) error { return errors.ErrUnsupported }
