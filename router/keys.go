package router

import (
	"context"
	"os"
	"reflect"
	"time"

	"berth/internal/run"
	"berth/router/access"
)

// keysLook is how often the file of keys is looked at.
const keysLook = 5 * time.Second

// followKeys takes a new file of keys when it has changed, until the context ends. One that is not valid is logged, and the
// old one stays: an operator's slip must not lock everybody out, nor let everybody in.
func (r *Router) followKeys(ctx context.Context) error {
	var seen fileState // it may have changed since it was read
	last := *r.config.Keys
	return run.Every(ctx, keysLook, func(context.Context) error {
		now := stateOf(r.config.KeysFile)
		if now == seen {
			return nil
		}
		seen = now
		f, err := access.Read(r.config.KeysFile)
		if err != nil {
			r.config.Logger.Error("the file of API keys has changed and is of no use; the old one stays", "error", err)
			return nil
		}
		if reflect.DeepEqual(f, last) {
			return nil
		}
		last = f
		r.handler.gate.Take(f)
		r.config.Logger.Info("the file of API keys has been read again", "keys", len(f.Keys))
		return nil
	})
}

// fileState tells one content of a file from another.
type fileState struct {
	size    int64
	changed time.Time
}

func stateOf(path string) fileState {
	info, err := os.Stat(path)
	if err != nil {
		return fileState{} // reading it says why
	}
	return fileState{info.Size(), info.ModTime()}
}
