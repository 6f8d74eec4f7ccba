package sim

import (
	"context"
	"errors"
	"slices"
	"sync"
)

var errQueueFull = errors.New("the queue is full")

// slots lets at most max requests run; the others wait in order of arrival.
type slots struct {
	mu      sync.Mutex
	max     int
	bound   int // waiting requests before errQueueFull; 0: none
	running int
	blocks  int // of the cache, held by what runs
	waiting []chan struct{}
}

// acquire waits for a turn. It returns ctx's cause when ctx ends first, and then
// holds nothing.
func (s *slots) acquire(ctx context.Context) error {
	s.mu.Lock()
	if s.running < s.max && len(s.waiting) == 0 {
		s.running++
		s.mu.Unlock()
		return nil
	}
	if s.bound > 0 && len(s.waiting) >= s.bound {
		s.mu.Unlock()
		return errQueueFull
	}
	turn := make(chan struct{})
	s.waiting = append(s.waiting, turn)
	s.mu.Unlock()
	select {
	case <-turn:
		return nil
	case <-ctx.Done():
		s.leave(turn)
		return context.Cause(ctx)
	}
}

// leave gives up a place in the queue, or the turn if it came at the same moment.
func (s *slots) leave(turn chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if i := slices.Index(s.waiting, turn); i >= 0 {
		s.waiting = slices.Delete(s.waiting, i, i+1)
		return
	}
	s.passOnLocked()
}

func (s *slots) release() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.passOnLocked()
}

// passOnLocked hands a running request's slot to the first that waits.
func (s *slots) passOnLocked() {
	if len(s.waiting) == 0 {
		s.running--
		return
	}
	close(s.waiting[0])
	s.waiting = s.waiting[1:]
}

// hold changes the number of cache blocks that running requests occupy.
func (s *slots) hold(delta int) {
	s.mu.Lock()
	s.blocks += delta
	s.mu.Unlock()
}

func (s *slots) counts() (running, waiting, blocks int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.running, len(s.waiting), s.blocks
}
