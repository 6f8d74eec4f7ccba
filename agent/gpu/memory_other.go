//go:build !linux

package gpu

import "berth/fleet"

// hostMemory is unknown elsewhere: agents run on Linux.
func hostMemory() fleet.Bytes { return 0 }
