package peer

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"berth/consensus"
	"berth/fleet/wire"
	"berth/internal/run"
)

// careEvery is how often a peer looks after itself.
const careEvery = 10 * time.Second

// care is what a peer notices about itself and wants a person to see, while that is still cheap to mend. The leader gets it with each relay and
// shows it in status.
type care struct {
	log     *slog.Logger
	dir     string
	use     func() (consensus.DiskUse, error)
	backups *backups

	mu   sync.Mutex
	last consensus.DiskUse
	said []string // of the disk
}

func (c *care) run(ctx context.Context) error {
	c.look()
	return run.Every(ctx, careEvery, func(context.Context) error {
		c.look()
		return nil
	})
}

func (c *care) look() {
	use, err := c.use()
	said := use.Warnings(c.dir)
	if err != nil {
		said = []string{fmt.Sprintf("its disk cannot be looked at: %v", err)}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, line := range said {
		if !slices.ContainsFunc(c.said, func(old string) bool { return sameMatter(old, line) }) {
			c.log.Warn("this peer needs a person", "reason", line)
		}
	}
	c.last, c.said = use, said
}

// sameMatter says whether two lines differ in their figures alone.
func sameMatter(a, b string) bool {
	plain := func(r rune) rune {
		if r >= '0' && r <= '9' {
			return -1
		}
		return r
	}
	return strings.Map(plain, a) == strings.Map(plain, b)
}

// warnings are a line each.
func (c *care) warnings() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Concat(c.said, c.backups.warnings())
}

func (c *care) diskUse() consensus.DiskUse {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.last
}

// tell adds it to what goes to the leader.
func (c *care) tell(r *wire.Relay) { r.Warnings, r.Backup = c.warnings(), c.backups.word() }
