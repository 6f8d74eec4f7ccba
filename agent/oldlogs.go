package agent

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"time"

	"berth/agent/shim"
	"berth/internal/run"
)

const (
	sweepEvery  = time.Hour
	oldLogAge   = 7 * 24 * time.Hour
	oldLogBytes = 1 << 30
)

// sweeper removes what stopped replicas' engines wrote: after oldLogAge, and the oldest first while all of it is more than oldLogBytes. What a
// shard that is still here wrote is bounded by its shim, and left alone.
type sweeper struct {
	root string
	crew *crew
	log  *slog.Logger
}

// oldLog is the folder of one shard's output.
type oldLog struct {
	path  string
	at    time.Time // of the last line
	bytes int64
}

func (s *sweeper) run(ctx context.Context) error {
	return run.Every(ctx, sweepEvery, func(context.Context) error {
		if err := s.sweep(); err != nil {
			s.log.Warn("old logs are not removed", "error", err)
		}
		return nil
	})
}

func (s *sweeper) sweep() error {
	logs, err := s.old()
	if err != nil {
		return err
	}
	slices.SortFunc(logs, func(a, b oldLog) int { return b.at.Compare(a.at) })
	var total int64
	var errs []error
	for _, l := range logs {
		if total += l.bytes; total > oldLogBytes || time.Since(l.at) > oldLogAge {
			errs = append(errs, os.RemoveAll(l.path))
		}
	}
	return errors.Join(errs...)
}

// old lists the folders of shards that are not here any more.
func (s *sweeper) old() ([]oldLog, error) {
	dirs, err := os.ReadDir(s.root)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	used := map[string]bool{}
	for _, k := range s.crew.list() {
		v := k.view()
		rank := v.order.Rank
		if v.handle != nil {
			rank = v.handle.Launch().Order.Rank
		}
		used[shim.LogDir(s.root, k.replica, rank)] = true
	}
	var logs []oldLog
	for _, d := range dirs {
		path := filepath.Join(s.root, d.Name())
		if !d.IsDir() || used[path] {
			continue
		}
		l, err := measureLog(path)
		if err != nil {
			return nil, err
		}
		logs = append(logs, l)
	}
	return logs, nil
}

func measureLog(path string) (oldLog, error) {
	l := oldLog{path: path}
	files, err := os.ReadDir(path)
	if err != nil {
		return l, err
	}
	for _, f := range files {
		info, err := f.Info()
		if err != nil {
			return l, err
		}
		l.bytes += info.Size()
		if info.ModTime().After(l.at) {
			l.at = info.ModTime()
		}
	}
	return l, nil
}
