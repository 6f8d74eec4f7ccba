//go:build !linux

package router

import "time"

var start = time.Now()

// bootTime is the process's monotonic clock; whether it goes on during suspend is the system's choice. Routers run on
// Linux; this keeps the module building elsewhere.
func bootTime() time.Duration { return time.Since(start) }
