package consensus

import (
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/raft"

	"berth/fleet"
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
		wg.Go(func() { _ = old.barrier(t.Context()) }) // which raft itself waits for
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

func TestALeaderKeepsItsVote(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		leader := r.three()
		if err := leader.Demote(t.Context(), leader.ID(), true); !errors.Is(err, fleet.Conflict) {
			t.Errorf("a leader was asked to give up its own vote: %v", err)
		}
		r.write(leader, "a")
	})
}

// raft ends itself in a leader that loses its vote, and the peer must not live on without it.
func TestAPeerWhoseRaftHasEndedEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		old := r.three()
		if err := old.raft.DemoteVoter(raft.ServerID(old.ID()), 0, time.Second).Error(); err != nil {
			t.Fatal(err)
		}
		delete(r.all, old.ID())
		r.write(r.leader(), "a")
		select {
		case <-old.ctx.Done():
		case <-time.After(10 * time.Second):
			t.Error("it lives on")
		}
		if err := old.stop(); err == nil || !strings.Contains(err.Error(), "still a member") {
			t.Errorf("Run: %v", err)
		}
	})
}
