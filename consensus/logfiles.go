package consensus

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/hashicorp/raft"

	"berth/consensus/wal"
)

// Where a data directory keeps its log. Term and vote are in raft.db in any case.
const (
	LogWAL  = "wal"    // the folder log, see package wal
	LogBolt = "boltdb" // raft.db (raft-boltdb/v2)
)

const walDir = "log"

// openLog opens the log of the kind that the directory holds. What is wanted counts for one that holds none yet, and must not differ from what another
// holds: a log that was left aside would be missed.
func (f *files) openLog(want string) (err error) {
	if f.bolt, err = openBolt(filepath.Join(f.dir, storeFile)); err != nil {
		return err
	}
	have, err := f.kindHeld()
	if err != nil {
		return err
	}
	if want != "" && have != "" && want != have {
		return fmt.Errorf("data directory %s keeps its log as %s and is to keep it as %s: leave the setting out, or move the directory away and join anew", f.dir, have, want)
	}
	if cmp.Or(have, want, LogWAL) == LogBolt {
		f.store = f.bolt
		return nil
	}
	if f.wal, err = wal.Open(filepath.Join(f.dir, walDir)); err != nil {
		return fmt.Errorf("open the log of %s: %w; if it is damaged, move the data directory away and join anew", f.dir, err)
	}
	f.store = walStore{f.wal, f.bolt}
	return nil
}

// kindHeld says how the directory keeps its log; empty if there is nothing in it yet.
func (f *files) kindHeld() (string, error) {
	last, err := f.bolt.LastIndex()
	if err != nil {
		return "", err
	}
	_, err = os.Stat(filepath.Join(f.dir, walDir))
	switch {
	case err != nil && !errors.Is(err, os.ErrNotExist):
		return "", err
	case err == nil && last > 0:
		return "", fmt.Errorf("data directory %s has a log in %s and another in %s: one of them was put there from elsewhere", f.dir, storeFile, walDir)
	case err == nil:
		return LogWAL, nil
	case last > 0:
		return LogBolt, nil
	}
	return "", nil
}

// walStore is a log in a folder of its own, beside term and vote.
type walStore struct {
	*wal.Log
	raft.StableStore
}

// replace puts another entry in the place of one in the log of a peer that does not run.
func (f *files) replace(l *raft.Log) error {
	if f.wal != nil {
		return f.wal.Replace(l)
	}
	return f.store.StoreLog(l)
}
