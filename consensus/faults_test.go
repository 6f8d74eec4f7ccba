package consensus

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// Random kills, cuts, stalls and snapshots under load: what was acknowledged is there in the end, all peers agree,
// nothing hangs, and no peer ever claims knowledge that is fresher than it is.
func TestRandomFaults(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	for round := range 1 {
		synctest.Test(t, func(t *testing.T) {
			r := newRig(t)
			r.dir = t.TempDir()
			r.tune = func(c *Config) {
				c.Timings = Timings{SnapshotThreshold: 20, TrailingLogs: 100, SnapshotInterval: time.Second}
			}
			r.three()
			acked := r.storm(rand.New(rand.NewPCG(seed, uint64(round))), 30*time.Second)
			r.net.HealAll()
			for i := 1; i <= 3; i++ {
				if id := fmt.Sprintf("peer-%d", i); r.all[id] == nil {
					r.start(id, 3)
				}
			}
			r.until("a write", func() bool { return put(r.leader(), "final") == nil })
			leader := r.leader()
			r.same(leader)
			for _, a := range acked {
				if _, ok := leader.machine.State().Server(a.id); !ok {
					t.Errorf("seed %d round %d: acknowledged write %s is gone", seed, round, a.id)
				}
			}
			if len(acked) < 20 {
				t.Errorf("only %d writes were acknowledged: the test shows little", len(acked))
			}
		})
	}
}

// ack is an acknowledged write.
type ack struct {
	id    string
	index uint64
	at    time.Time
}

// storm writes from two clients and does a fault about every second.
func (r *rig) storm(rnd *rand.Rand, length time.Duration) (acked []ack) {
	ctx, cancel := context.WithTimeout(r.t.Context(), length)
	defer cancel()
	lock := make(semaphore, 1) // over rig.all and acked; a mutex held through a wait would stop the bubble's clock
	var clients sync.WaitGroup
	for c := range 2 {
		clients.Go(func() {
			for i := 0; ctx.Err() == nil; i++ {
				time.Sleep(100 * time.Millisecond)
				lock.Lock()
				r.checkClaims(acked)
				p := r.anyLeader()
				lock.Unlock()
				if p == nil {
					continue
				}
				id := fmt.Sprintf("w-%d-%d", c, i)
				if index, err := putIndex(p, id); err == nil {
					lock.Lock()
					acked = append(acked, ack{id, index, time.Now()})
					lock.Unlock()
				}
			}
		})
	}
	for ctx.Err() == nil {
		time.Sleep(time.Duration(500+rnd.IntN(1500)) * time.Millisecond)
		lock.Lock()
		r.fault(rnd)
		lock.Unlock()
	}
	clients.Wait()
	return acked
}

func (r *rig) anyLeader() *peer {
	for _, p := range r.all {
		if p.IsLeader() {
			return p
		}
	}
	return nil
}

// checkClaims holds what every peer says it knows against what had been acknowledged at the moment it speaks of.
func (r *rig) checkClaims(acked []ack) {
	for _, p := range r.all {
		_, commit, age := p.Knowledge()
		if age < 0 {
			continue
		}
		asOf := time.Now().Add(-age)
		for _, a := range acked {
			if a.at.Before(asOf) && a.index > commit {
				r.t.Errorf("%s claims that %d was all, %v ago; entry %d had been acknowledged %v before", p.ID(), commit, age, a.index, asOf.Sub(a.at))
			}
		}
	}
}

// semaphore is a lock whose waiters count as waiting for the bubble.
type semaphore chan struct{}

func (s semaphore) Lock()   { s <- struct{}{} }
func (s semaphore) Unlock() { <-s }

func (r *rig) fault(rnd *rand.Rand) {
	id := fmt.Sprintf("peer-%d", 1+rnd.IntN(3))
	other := fmt.Sprintf("peer-%d", 1+rnd.IntN(3))
	switch p := r.all[id]; {
	case p == nil:
		r.start(id, 3)
	case rnd.IntN(4) == 0:
		r.kill(id)
	case rnd.IntN(3) == 0:
		r.net.Isolate(id)
	case rnd.IntN(3) == 0 && other != id:
		r.net.Stall(id, other)
	case rnd.IntN(4) == 0:
		r.net.Cut(id, other)
	default:
		r.net.HealAll()
	}
}
