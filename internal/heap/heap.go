// Package heap gives the garbage collector of a process some memory to save time with. It must never know what the
// memory is used for.
package heap

import (
	"context"
	"os"
	"runtime/debug"
	"runtime/metrics"
	"time"

	"berth/internal/run"
)

const (
	tick        = time.Second
	mostPercent = 1600
)

// Spare lets so many bytes of garbage gather before the heap is collected, or as many as are live where that is more, until
// the context ends. A small heap is otherwise collected many times a second under load, each time with the fixed cost of a
// collection. Go's own measure also lets as much gather as all stacks take, which a process with a stack for each of
// thousands of waiting streams has no use for. GOGC in the environment overrules it. It returns nil.
func Spare(ctx context.Context, bytes uint64) error {
	if os.Getenv("GOGC") != "" {
		<-ctx.Done()
		return nil
	}
	now := percent(bytes, read())
	before := debug.SetGCPercent(now)
	defer debug.SetGCPercent(before)
	return run.Every(ctx, tick, func(context.Context) error {
		if next := percent(bytes, read()); 5*next < 4*now || 4*next > 5*now { // each change stops the process for a moment
			now = next
			debug.SetGCPercent(now)
		}
		return nil
	})
}

// use is the memory that the newest collection found in use.
type use struct{ live, scanned uint64 } // scanned: stacks and globals

func percent(spare uint64, u use) int {
	return int(min(100*max(spare, u.live)/max(u.live+u.scanned, 1), mostPercent))
}

func read() use {
	sample := []metrics.Sample{{Name: "/gc/heap/live:bytes"}, {Name: "/gc/scan/stack:bytes"}, {Name: "/gc/scan/globals:bytes"}}
	metrics.Read(sample)
	return use{sample[0].Value.Uint64(), sample[1].Value.Uint64() + sample[2].Value.Uint64()}
}
