package consensus

import (
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// A leader that ends because its disk is stuck still answers whoever asked it meanwhile, and ends in time.
func TestALeaderThatEndsLeavesNoQuestionOpen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		disks := r.disks()
		old := r.three()
		d := disks[old.ID()]
		d.set(true, nil)
		var wg sync.WaitGroup
		wg.Go(func() { _ = put(old, "stuck") })
		time.Sleep(time.Second)
		for range 3 {
			wg.Go(func() {
				if err := old.Verify(t.Context()); err == nil {
					t.Error("a leader whose disk is stuck was verified")
				}
			})
		}
		<-old.ctx.Done() // the watchdog has bitten
		d.set(false, errors.New("the process is gone"))
		began := time.Now()
		delete(r.all, old.ID())
		err := old.stop()
		if took := time.Since(began); took > 5*time.Second || strings.Contains(err.Error(), "did not stop") {
			t.Errorf("it took %v to end: %v", took, err)
		}
		wg.Wait()
	})
}
