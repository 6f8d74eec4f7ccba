package pool

import (
	"sync"
	"time"
)

// clock stamps uses at the price of the monotonic clock, tens of nanoseconds, and yet counts the time for which the
// machine was suspended, which that clock leaves out. The clock that has it (CLOCK_BOOTTIME) costs a system call, so it
// is read once a tick and the difference of the two is kept.
//
// A use between two looks, in a tick in which the machine slept, may have been before the sleep or after it. It counts
// as after: a replica may look more recently used once, by that sleep, but never less.
type clock struct {
	boot func() time.Duration
	// now is the time since the start without sleeps: a stamp.
	now func() time.Duration

	mu     sync.Mutex
	seen   time.Duration // of the newest look, as now tells it
	first  time.Duration // boot's lead at the start, or behind the oldest sleep that was dropped
	sleeps []sleep       // oldest first
}

// sleep is a change of the lead of the boot clock: stamps from a moment on are of the time after it.
type sleep struct{ from, lead time.Duration }

const (
	leastSleep = 100 * time.Millisecond // less is the time between the readings of two clocks
	maxSleeps  = 64                     // those before are taken for uses after the oldest one kept
)

func newClock(boot, now func() time.Duration) *clock {
	return &clock{boot: boot, now: now, first: boot()}
}

// look compares the clocks.
func (c *clock) look() {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.now()
	if lead := c.boot() - now; lead-c.lead() >= leastSleep {
		c.sleeps = append(c.sleeps, sleep{from: c.seen, lead: lead})
		if len(c.sleeps) > maxSleeps {
			c.first, c.sleeps = c.sleeps[0].lead, c.sleeps[1:]
		}
	}
	c.seen = now
}

// lead is by how much the boot clock led at the newest look. The lock is held.
func (c *clock) lead() time.Duration {
	if n := len(c.sleeps); n > 0 {
		return c.sleeps[n-1].lead
	}
	return c.first
}

// age is how long ago a stamp was taken, sleeps included.
func (c *clock) age(stamp time.Duration) time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	then := c.first
	for _, s := range c.sleeps {
		if stamp >= s.from {
			then = s.lead
		}
	}
	return max(c.now()-stamp, 0) + c.lead() - then
}
