package consensus

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
)

// TestDutiesBeginWithEverythingThatWasCommitted: a leader of a cluster that starts anew has the log and has applied none of it. Duties that began now
// would take an empty fleet for the truth.
func TestDutiesBeginWithEverythingThatWasCommitted(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.dir = dir
		leader := r.three()
		for i := range 50 {
			r.write(leader, fmt.Sprint("row-", i))
		}
		r.same(leader)
		for id, p := range r.all {
			if err := p.stop(); err != nil {
				t.Fatal(err)
			}
			delete(r.all, id)
		}
		ctx, cancel := context.WithCancel(t.Context())
		var all sync.WaitGroup
		defer all.Wait()
		defer cancel()
		began := make(chan string, 9)
		for i := 1; i <= 3; i++ {
			p := r.start(fmt.Sprintf("peer-%d", i), 3)
			all.Go(func() {
				_ = p.Lead(ctx, func(context.Context, uint64) error {
					missing := 0
					for i := range 50 {
						if _, ok := p.machine.State().Server(fmt.Sprint("row-", i)); !ok {
							missing++
						}
					}
					began <- fmt.Sprintf("%d of 50 rows missing at %s", missing, p.ID())
					return nil
				})
			})
		}
		if said := <-began; said[:2] != "0 " {
			t.Error("when the duties began: " + said)
		}
	})
}
