package pool

import (
	"context"
	"testing"
	"time"

	"berth/fleet/wire"
)

// BenchmarkChoiceByPrompt is a prompt of 128 blocks of which the half is known, at eight replicas.
func BenchmarkChoiceByPrompt(b *testing.B) {
	start := time.Now()
	p := New(func() time.Duration { return time.Since(start) })
	p.Apply(wire.Table{Models: []wire.TableModel{fleetOf("ttft", 8)}})
	hints := make([]*Hint, 256)
	shared := prompt(nil, 1, 64).Blocks
	for i := range hints {
		hints[i] = &Hint{Prompt: prompt(shared, uint64(i), 64), Stream: true}
	}
	b.ReportAllocs()
	n := 0
	for b.Loop() {
		l, err := p.Acquire(context.Background(), "m", hints[n%len(hints)])
		if err != nil {
			b.Fatal(err)
		}
		l.Answered()
		l.Release(Served)
		n++
	}
}

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

// BenchmarkUse is Acquire and Release alone and on all processors, and what of it the time of use is: the same with a clock
// that costs nothing, which no router has. The policy is off, then on for a request without a prompt.
func BenchmarkUse(b *testing.B) {
	start := time.Now()
	clocks := map[string]func() time.Duration{"timed": func() time.Duration { return time.Since(start) }, "untimed": func() time.Duration { return 1 }}
	for _, policy := range []string{"least-loaded", "ttft"} {
		for name, now := range clocks {
			p := NewAt(now, now)
			p.Apply(wire.Table{Models: []wire.TableModel{fleetOf(policy, 4)}})
			use := func(hint *Hint) {
				l, err := p.Acquire(context.Background(), "m", hint)
				if err != nil {
					b.Error(err)
					return
				}
				l.Release(Served)
			}
			b.Run(policy+"/"+name+"/one", func(b *testing.B) {
				b.ReportAllocs()
				hint := &Hint{}
				for b.Loop() {
					use(hint)
				}
			})
			b.Run(policy+"/"+name+"/all", func(b *testing.B) {
				b.RunParallel(func(pb *testing.PB) {
					for hint := new(Hint); pb.Next(); {
						use(hint)
					}
				})
			})
		}
	}
}
