package berth_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestClocksGoOnInSuspension: a clock that is read from the kernel must be the one that goes on while a machine is suspended. No test can suspend
// the machine that it runs on, so this one reads the source.
func TestClocksGoOnInSuspension(t *testing.T) {
	clock := regexp.MustCompile(`\bCLOCK_[A-Z_]+`)
	read := 0
	for _, f := range goFiles(t) {
		if f.test {
			continue
		}
		text, err := os.ReadFile(filepath.FromSlash(f.path))
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(text)) {
			name := clock.FindString(line)
			if !strings.Contains(line, "ClockGettime(") || name == "" {
				continue
			}
			if read++; name != "CLOCK_BOOTTIME" {
				t.Errorf("%s reads %s, which stands still while the machine is suspended; use CLOCK_BOOTTIME", f.path, name)
			}
		}
	}
	if read < 3 {
		t.Errorf("found %d readings of a clock; the peer, the router and the shim each have one", read)
	}
}
