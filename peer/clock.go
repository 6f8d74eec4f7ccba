package peer

import (
	"time"

	"golang.org/x/sys/unix"
)

// BootClock is the machine's time since it was started. It goes on while the machine is suspended, so a laptop that slept or a virtual machine
// that was paused does not make replicas look less idle than they are.
// (DESIGN §8, rule 9; the router and the shim read theirs in the same way.)
func BootClock() time.Duration {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &ts); err != nil {
		panic("peer: no CLOCK_BOOTTIME: " + err.Error()) // there since Linux 2.6.39
	}
	return time.Duration(ts.Nano())
}
