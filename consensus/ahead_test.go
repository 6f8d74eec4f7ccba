package consensus

import (
	"errors"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/raft"
)

// While a leader's disk stands still, its followers write what it was given; and it is answered only once its own disk has it too.
func TestNothingIsCommittedThatIsNotOnTheLeadersDisk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		disks := r.disks()
		leader := r.three()
		r.write(leader, "a")
		before := leader.raft.CommitIndex()
		disks[leader.ID()].set(true, nil)
		defer disks[leader.ID()].set(false, nil)
		answered := make(chan error, 1)
		go func() { answered <- put(leader, "b") }()
		time.Sleep(2 * time.Second)
		for id, p := range r.all {
			inner, _ := p.store.LastIndex() // on the disk
			if has := inner > before; has != (id != leader.ID()) {
				t.Errorf("%s has entries up to %d on its disk; %d were committed before", id, inner, before)
			}
			if got := p.raft.CommitIndex(); got != before {
				t.Errorf("%s has %d committed, before the leader's disk has it", id, got)
			}
		}
		select {
		case err := <-answered:
			t.Fatalf("the write was answered before the leader's disk had it: %v", err)
		default:
		}
		disks[leader.ID()].set(false, nil)
		if err := <-answered; err != nil {
			t.Error(err)
		}
		r.same(leader)
	})
}

// A leader whose disk refuses what it has taken steps down, and goes on when there is room again.
func TestALeaderThatCannotWriteWhatItTookStepsDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		disks := r.disks()
		old := r.three()
		disks[old.ID()].set(false, syscall.ENOSPC)
		began := time.Now()
		if err := put(old, "a"); err == nil {
			t.Error("a write that the leader's disk refused was acknowledged")
		}
		if took := time.Since(began); took > 3*time.Second || old.IsLeader() {
			t.Errorf("after %v it leads: %v", took, old.IsLeader())
		}
		delete(r.all, old.ID())
		r.write(r.leader(), "b")
		_ = old.stop()
	})
}

// slowStore is a log that writes only when it is told to.
type slowStore struct {
	*raft.InmemStore
	gate chan error
}

func (s *slowStore) StoreLogs(logs []*raft.Log) error {
	if err := <-s.gate; err != nil {
		return err
	}
	return s.InmemStore.StoreLogs(logs)
}

func newSlow() (*ahead, *slowStore, *bool) {
	s := &slowStore{raft.NewInmemStore(), make(chan error)}
	a := newAhead(s, func(error) {})
	leading := true
	leads := func() bool { return leading }
	a.leads.Store(&leads)
	return a, s, &leading
}

func commands(from, to uint64) (out []*raft.Log) {
	for i := from; i <= to; i++ {
		out = append(out, &raft.Log{Index: i, Term: 3, Type: raft.LogCommand, Data: []byte{byte(i)}})
	}
	return out
}

// What a peer took ahead as a leader is on its disk before it answers for it as a follower, or votes with what it has deleted of it.
func TestWhatWasTakenAheadIsWrittenBeforeAFollowerAnswersForIt(t *testing.T) {
	for name, ask := range map[string]func(*ahead) error{
		"GetLog":      func(a *ahead) error { return a.GetLog(2, new(raft.Log)) },
		"StoreLogs":   func(a *ahead) error { return a.StoreLogs(commands(3, 3)) },
		"DeleteRange": func(a *ahead) error { return a.DeleteRange(2, 2) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a, s, leading := newSlow()
				if err := a.StoreLogs(commands(1, 2)); err != nil {
					t.Fatal(err)
				}
				if last, _ := a.LastIndex(); last != 2 {
					t.Fatalf("the log ends at %d, want 2", last)
				}
				var got raft.Log
				if err := a.GetLog(2, &got); err != nil || got.Term != 3 {
					t.Fatalf("a leader reads what it took: %+v, %v", got, err)
				}
				*leading = false
				var wg sync.WaitGroup
				done := false
				wg.Go(func() {
					if err := ask(a); err != nil {
						t.Error(err)
					}
					done = true
				})
				synctest.Wait()
				if done {
					t.Error("it did not wait for the disk")
				}
				for !done {
					s.gate <- nil
					synctest.Wait()
				}
				wg.Wait()
				if a.newest() != 0 {
					t.Error("something is not written yet")
				}
			})
		})
	}
}

func TestAnAnswerWaitsForTheOwnDiskAndNoLonger(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, s, _ := newSlow()
		if err := a.StoreLogs(commands(1, 2)); err != nil {
			t.Fatal(err)
		}
		ends := make(chan struct{})
		var wg sync.WaitGroup
		wg.Go(func() { a.run(ends) })
		defer wg.Wait()
		defer close(ends)
		var answered [4]bool
		for i := range answered {
			wg.Go(func() { answered[i] = a.flush(uint64(i)) == nil })
		}
		synctest.Wait()
		if answered != [4]bool{true} { // 0 is on the disk already
			t.Errorf("answered %v before anything was written", answered)
		}
		if err := a.StoreLogs(commands(3, 3)); err != nil {
			t.Fatal(err)
		}
		s.gate <- nil
		synctest.Wait()
		if !answered[1] || !answered[2] {
			t.Errorf("answered %v after 1 and 2 were written", answered)
		}
		s.gate <- errors.New("no room")
		synctest.Wait()
		if a.newest() != 3 {
			t.Error("what could not be written is forgotten")
		}
		s.gate <- nil // whoever else waits tries again
		synctest.Wait()
		if last, _ := s.LastIndex(); last != 3 || a.newest() != 0 {
			t.Errorf("the store ends at %d", last)
		}
	})
}

// Only commands of a leader that asks others go ahead, and no more than raft can be kept waiting for.
func TestWhatIsNotTakenAhead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, s, leading := newSlow()
		waits := func(logs []*raft.Log) bool {
			done := make(chan error, 1)
			go func() { done <- a.StoreLogs(logs) }()
			synctest.Wait()
			select {
			case <-done:
				return false
			default:
			}
			for a.newest() != 0 {
				s.gate <- nil
				synctest.Wait()
			}
			s.gate <- nil
			return <-done == nil
		}
		if waits(commands(1, 1)) {
			t.Error("a leader's command waits")
		}
		for _, kind := range []raft.LogType{raft.LogConfiguration, raft.LogNoop, raft.LogBarrier} {
			last, _ := a.LastIndex()
			if l := commands(last+1, last+2); !waits(append(l[:1], &raft.Log{Index: last + 2, Term: 3, Type: kind})) {
				t.Errorf("an entry of type %s was taken ahead", kind)
			}
		}
		last, _ := a.LastIndex()
		if !waits(commands(last+1, last+aheadLimit+1)) {
			t.Error("more than the limit was taken ahead")
		}
		*leading = false
		last, _ = a.LastIndex()
		if !waits(commands(last+1, last+1)) {
			t.Error("a follower's entry was taken ahead")
		}
	})
}
