package sim

import (
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

// join takes a place: the channel is closed when its turn has come. leave gives it
// up, whether or not it has come.
func (s *slots) join() (turn chan struct{}, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	turn = make(chan struct{})
	switch {
	case s.running < s.max && len(s.waiting) == 0:
		s.running++
		close(turn)
	case s.bound > 0 && len(s.waiting) >= s.bound:
		return nil, errQueueFull
	default:
		s.waiting = append(s.waiting, turn)
	}
	return turn, nil
}

func (s *slots) leave(turn chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if i := slices.Index(s.waiting, turn); i >= 0 {
		s.waiting = slices.Delete(s.waiting, i, i+1)
		return
	}
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
