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
	tick         = time.Second
	leastPercent = 100  // Go's own
	mostPercent  = 1600 // of a heap of 4 MiB, which no process of ours is below, 64 MiB
)

// Spare lets the heap grow by so many bytes of garbage before it is collected, or by its own size where that is more,
// until the context ends. A small heap is otherwise collected many times a second under load, each time with the fixed
// cost of a collection. GOGC in the environment overrules it. It returns nil.
func Spare(ctx context.Context, bytes uint64) error {
	if os.Getenv("GOGC") != "" {
		<-ctx.Done()
		return nil
	}
	now := percent(bytes, live())
	before := debug.SetGCPercent(now)
	defer debug.SetGCPercent(before)
	return run.Every(ctx, tick, func(context.Context) error {
		if next := percent(bytes, live()); 5*next < 4*now || 4*next > 5*now { // each change stops the process for a moment
			now = next
			debug.SetGCPercent(now)
		}
		return nil
	})
}

func percent(spare, live uint64) int {
	return int(min(max(100*spare/max(live, 1), leastPercent), mostPercent))
}

// live is what was found in use by the newest collection.
func live() uint64 {
	sample := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	metrics.Read(sample)
	return sample[0].Value.Uint64()
}
