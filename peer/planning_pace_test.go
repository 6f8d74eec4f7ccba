package peer

import (
	"testing"
	"time"
)

// However dear a plan is, planning leaves most of the time to the writes that it is for; a cheap one answers soon.
func TestPlanningKeepsToItsShareOfTheTime(t *testing.T) {
	for took, want := range map[time.Duration]time.Duration{
		0: planPace, time.Millisecond: planPace, 10 * time.Millisecond: 90 * time.Millisecond, 100 * time.Millisecond: 900 * time.Millisecond, time.Minute: planLull,
	} {
		if got := (&knowledge{took: took}).pace(); got != want {
			t.Errorf("after a plan of %s the next comes %s later, want %s", took, got, want)
		}
	}
}
