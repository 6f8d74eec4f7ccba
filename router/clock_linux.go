package router

import (
	"fmt"
	"time"

	"golang.org/x/sys/unix"
)

// bootTime reads CLOCK_BOOTTIME, which goes on while the machine is suspended: a replica does not stay in use because
// the router slept.
// (DESIGN §8, rule 9.)
func bootTime() time.Duration {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &ts); err != nil {
		panic(fmt.Sprintf("router: CLOCK_BOOTTIME: %v; Linux 2.6.39 or newer is needed", err))
	}
	return time.Duration(ts.Nano())
}
