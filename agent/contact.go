package agent

import (
	"sync"
	"time"
)

const (
	// aloneAfter is how long no peer may have answered before single-node replicas are started from disk.
	aloneAfter = 60 * time.Second
	// recentFor is how old an answer may be for the orders at hand to count as the peers' present will.
	recentFor = 10 * time.Second
)

// contact knows when a peer that has a leader last answered: to a question for orders, or to a heartbeat with the leader's stamp. An answer from
// a peer without a leader is none; orders cannot be had from it.
type contact struct {
	mu    sync.Mutex
	at    time.Time
	heard bool // in this life of the agent
}

func newContact() *contact { return &contact{at: time.Now()} }

func (c *contact) hear() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.at, c.heard = time.Now(), true
}

// recent says whether the peers have answered just now.
func (c *contact) recent() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.heard && time.Since(c.at) <= recentFor
}

// silence is for how long no peer has answered, or for how long the agent has lived if none ever did.
func (c *contact) silence() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	return time.Since(c.at)
}

func (c *contact) alone() bool { return c.silence() >= aloneAfter }
