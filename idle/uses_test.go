package idle_test

import (
	"testing"
	"time"

	"berth/fleet/wire"
	"berth/idle"
)

// What a router is shown to have used is all of its boot, though a report holds only what changed; and nothing of an earlier boot.
func TestRouterShowsItsWholeBoot(t *testing.T) {
	l := idle.New("peer-1", 4)
	shows := func(at time.Duration, want map[string]wire.Use) {
		t.Helper()
		got := l.Uses(at, "router-1")
		if len(got) != len(want) {
			t.Errorf("shows %v, want %v", got, want)
		}
		for id, u := range want {
			if g, ok := got[id]; !ok || g.InFlight != u.InFlight || g.Age < u.Age-0.1 || g.Age > u.Age+0.1 {
				t.Errorf("%s: %+v, want %+v", id, got[id], u)
			}
		}
	}
	l.Report(start, report(1, map[string]wire.Use{"r-1.1.1": {Age: 2}, "r-1.1.2": {Age: 1, InFlight: 3}, "": {}}))
	l.Report(start+time.Second, report(2, map[string]wire.Use{"r-1.1.2": {}}))
	l.Report(start+2*time.Second, report(3, nil))
	shows(start+10*time.Second, map[string]wire.Use{"r-1.1.1": {Age: 12}, "r-1.1.2": {Age: 9}})

	l.Forget("r-1.1.1")
	shows(start+10*time.Second, map[string]wire.Use{"r-1.1.2": {Age: 9}})

	restarted := report(1, nil)
	restarted.Boot = 8
	l.Report(start+11*time.Second, restarted)
	shows(start+11*time.Second, nil)
}
