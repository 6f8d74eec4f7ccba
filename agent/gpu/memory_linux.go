package gpu

import (
	"golang.org/x/sys/unix"

	"berth/fleet"
)

// hostMemory is the machine's memory; 0 when it cannot be asked.
func hostMemory() fleet.Bytes {
	var info unix.Sysinfo_t
	if err := unix.Sysinfo(&info); err != nil {
		return 0
	}
	return fleet.Bytes(uint64(info.Totalram) * uint64(info.Unit))
}
