package consensus

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"time"

	"github.com/hashicorp/raft"

	"berth/fleet"
	"berth/fsm"
	"berth/internal/listen"
)

// Config says what a Node is made of.
type Config struct {
	// ID is the name of this peer, unique in the cluster for all time.
	ID string
	// DataDir holds everything of doc.go. Empty keeps all in memory: for tests and for a cluster inside one process.
	DataDir string
	// LogStore is LogWAL or LogBolt. Empty: what the data directory holds, LogWAL in a new one. A directory that holds the other is refused.
	LogStore string
	// Network opens and reaches raft ports.
	Network listen.Network
	// Policy says which addresses may be listened on.
	Policy listen.Policy
	// Bind is the address of the raft port. Advertise is where other peers reach it; empty means the address bound,
	// which must then have a host that others understand.
	Bind, Advertise string
	// Machine is the state. The node alone applies to it.
	Machine *fsm.Machine
	Log     *slog.Logger
	Timings Timings
	// Fatal is told why this peer must not go on: a disk stuck or lying, an entry that it cannot apply. A process ends
	// itself in it, at once. By then the raft port is shut; Run returns the same error. It must not call back. A peer that
	// was removed is not told: it ends in order.
	Fatal func(error)
	// Ballast is the size in bytes of a file that is given up when the disk is full; 0: none.
	Ballast int64
	// BeforeWrite, if set, is called before each write of log, term or vote, and may block or fail. It is how tests
	// make a disk stall or fill up.
	BeforeWrite func() error
}

// Timings are the durations and sizes that may be tuned. The zero value has the defaults.
type Timings struct {
	// Multiplier scales raft's heartbeat and election timeouts (1 s), leader lease (500 ms; see lease) and all that is
	// derived from them. 0 means 1; from 0.1 to 10.
	Multiplier float64
	// Wait bounds every wait on raft whose caller has no earlier deadline. 0 means 10 s.
	Wait time.Duration
	// SnapshotThreshold is how many entries since the last snapshot cause the next. 0 means 8192.
	SnapshotThreshold uint64
	// SnapshotInterval is how often that is looked at. 0 means 30 s.
	SnapshotInterval time.Duration
	// TrailingLogs is how many entries stay in the log after a snapshot. 0 means 20480. It must exceed
	// SnapshotThreshold by so much that an older snapshot with the log still makes the state: raft panics otherwise
	// when the newest cannot be read, and can send snapshots to one follower for ever (raft issues 85 and 697).
	TrailingLogs uint64
}

// The disk's watchdog, the transport and the files.
const (
	slowWrite       = time.Second      // a write that takes longer is worth a warning
	stuckWrite      = 5 * time.Second  // one that takes longer ends the peer
	transportWait   = 10 * time.Second // raft scales a snapshot's deadline by it: 10 s for each 256 KiB
	lockWait        = 5 * time.Second  // for a process that is just ending to give up the data directory
	closeWait       = 10 * time.Second
	snapshotsKept   = 3
	logCacheEntries = 512
)

func (t Timings) withDefaults() Timings {
	set(&t.Multiplier, 1)
	set(&t.Wait, 10*time.Second)
	set(&t.SnapshotThreshold, 8192)
	set(&t.SnapshotInterval, 30*time.Second)
	set(&t.TrailingLogs, 20480)
	return t
}

func set[T comparable](v *T, otherwise T) {
	var zero T
	if *v == zero {
		*v = otherwise
	}
}

// scale applies the multiplier to a duration of raft's defaults.
func (t Timings) scale(d time.Duration) time.Duration {
	return time.Duration(float64(d) * t.Multiplier)
}

// lease is for how long a leader goes on that hears from no quorum. Below a multiplier of 1 it is shortened by less than the heartbeat timeout: a
// quarter of a second is what a busy machine makes a leader wait, and what a follower does not take for its death the leader itself need not either.
func (t Timings) lease(full, heartbeat time.Duration) time.Duration {
	return max(t.scale(full), min(full, heartbeat*4/5))
}

// Validate lists everything that is wrong, in one error.
func (c Config) Validate() error {
	var errs []error
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if err := fleet.CheckName("peer", c.ID); err != nil {
		errs = append(errs, err)
	}
	if c.Network == nil || c.Machine == nil || c.Log == nil {
		bad("network, machine and log are required")
	}
	if c.LogStore != "" && c.LogStore != LogWAL && c.LogStore != LogBolt {
		bad("log store %q is neither %s nor %s", c.LogStore, LogWAL, LogBolt)
	}
	if _, _, err := net.SplitHostPort(c.Bind); err != nil {
		bad("raft address %q is not host:port: %w", c.Bind, err)
	}
	if c.Advertise != "" {
		if _, _, err := net.SplitHostPort(c.Advertise); err != nil {
			bad("advertised raft address %q is not host:port: %w", c.Advertise, err)
		}
	}
	if c.Ballast < 0 {
		bad("a ballast of %d bytes", c.Ballast)
	}
	t := c.Timings.withDefaults()
	if t.Multiplier < 0.1 || t.Multiplier > 10 {
		bad("raft timings multiplier %v is not between 0.1 and 10", t.Multiplier)
	}
	if t.TrailingLogs < t.SnapshotThreshold {
		bad("trailing logs (%d) must be at least the snapshot threshold (%d)", t.TrailingLogs, t.SnapshotThreshold)
	}
	if t.Wait < 0 || t.SnapshotInterval < 5*time.Millisecond {
		bad("wait %v and snapshot interval %v must be positive", t.Wait, t.SnapshotInterval)
	}
	return errors.Join(errs...)
}

// raftConfig gives raft's own configuration. MaxAppendEntries stays at its default, which is also how many proposals
// that wait while the disk syncs go into the next sync together; BatchApplyCh stays off because it would break the
// deadline on entering the queue.
func (c Config) raftConfig(notify chan<- bool) *raft.Config {
	t := c.Timings
	rc := raft.DefaultConfig()
	rc.LocalID = raft.ServerID(c.ID)
	rc.HeartbeatTimeout = t.scale(rc.HeartbeatTimeout)
	rc.ElectionTimeout = t.scale(rc.ElectionTimeout)
	rc.LeaderLeaseTimeout = t.lease(rc.LeaderLeaseTimeout, rc.HeartbeatTimeout)
	rc.CommitTimeout = t.scale(rc.CommitTimeout)
	rc.SnapshotThreshold = t.SnapshotThreshold
	rc.SnapshotInterval = t.SnapshotInterval
	rc.TrailingLogs = t.TrailingLogs
	rc.ShutdownOnRemove = true
	rc.PreVoteDisabled = false
	rc.NoLegacyTelemetry = true
	rc.NotifyCh = notify
	rc.Logger = newRaftLogger(c.Log)
	return rc
}
