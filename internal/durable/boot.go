package durable

import (
	"os"
	"strings"
)

// BootID names the machine's present boot: what is true of a boot only, such as a process id, is kept on disk beside it. Where the system has no such
// name (only Linux has) it is "unknown".
func BootID() string {
	b, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return "unknown"
	}
	return strings.TrimSpace(string(b))
}
