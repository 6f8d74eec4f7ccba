package heap

import (
	"context"
	"runtime"
	"runtime/debug"
	"testing"
	"testing/synctest"
	"time"
)

func TestPercent(t *testing.T) {
	const mib = 1 << 20
	for u, want := range map[use]int{{}: 1600, {2 * mib, 0}: 1600, {8 * mib, 0}: 800, {64 * mib, 0}: 100, {640 * mib, 0}: 100, {64 * mib, 64 * mib}: 50} {
		if got := percent(64*mib, u); got != want {
			t.Errorf("%+v: %d %%, want %d", u, got, want)
		}
	}
}

// TestSpareFollowsTheHeap and gives the collector back as it was.
func TestSpareFollowsTheHeap(t *testing.T) {
	t.Setenv("GOGC", "")
	before := debug.SetGCPercent(100)
	defer debug.SetGCPercent(before)
	kept := make([]byte, 200<<20)
	runtime.GC()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 2500*time.Millisecond)
		defer cancel()
		time.AfterFunc(1500*time.Millisecond, func() {
			p := debug.SetGCPercent(100)
			debug.SetGCPercent(p)
			if p < 100 || p > 160 {
				t.Errorf("%d %% with 200 MiB live and 300 to spare", p)
			}
		})
		if err := Spare(ctx, 300<<20); err != nil {
			t.Fatal(err)
		}
	})
	if p := debug.SetGCPercent(100); p != 100 {
		t.Errorf("%d %% is left behind", p)
	}
	runtime.KeepAlive(kept)
}
