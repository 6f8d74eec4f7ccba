package pool

import (
	"context"
	"testing"
	"time"

	"berth/fleet/wire"
)

func BenchmarkAcquireRelease(b *testing.B) {
	start := time.Now()
	p := New(func() time.Duration { return time.Since(start) })
	rows := row("m", ready("a"), ready("b"), ready("c"), ready("d"))
	p.Apply(wire.Table{Models: []wire.TableModel{rows}})
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		hint := &Hint{}
		for pb.Next() {
			l, err := p.Acquire(context.Background(), "m", hint)
			if err != nil {
				b.Error(err)
				return
			}
			l.Release(Served)
		}
	})
}
