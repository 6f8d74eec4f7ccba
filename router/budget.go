package router

import (
	"sync"
	"time"
)

// The budget of retries: a fifth of the requests, and a few more in any case so that a quiet router may retry too.
const (
	retryShare = 0.2
	retryFloor = 1.0 // a second
	retryMax   = 20.0
)

// budget limits how much work retries may add when replicas fail, so that failures do not feed on themselves. It is a
// bucket: requests and time fill it, retries empty it.
type budget struct {
	mu     sync.Mutex
	tokens float64
	filled time.Time
}

func newBudget() *budget { return &budget{tokens: retryMax / 2, filled: time.Now()} }

func (b *budget) deposit() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.tokens = min(b.tokens+retryShare, retryMax)
}

// withdraw says whether one retry may be made.
func (b *budget) withdraw() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := time.Now()
	b.tokens = min(b.tokens+retryFloor*now.Sub(b.filled).Seconds(), retryMax)
	b.filled = now
	if b.tokens < 1 {
		return false
	}
	b.tokens--
	return true
}
