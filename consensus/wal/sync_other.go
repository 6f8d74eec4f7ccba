//go:build !linux

package wal

import (
	"errors"
	"os"
)

func syncData(f *os.File) error { return f.Sync() }

func preallocate(*os.File, int64, int64) error { return errors.ErrUnsupported }
