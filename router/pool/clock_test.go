package pool

import (
	"testing"
	"testing/synctest"
	"time"

	"berth/fleet/wire"
)

// TestSleepCounts: the time for which the machine is suspended counts as age, and never hides a use.
func TestSleepCounts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start, slept := time.Now(), time.Duration(0)
		p := New(func() time.Duration { return time.Since(start) + slept + 5*time.Hour })
		p.Apply(wire.Table{Models: []wire.TableModel{row("m", ready("old")), row("n", ready("new"))}})
		use := func(model string) {
			l, err := p.Acquire(t.Context(), model, nil)
			if err != nil {
				t.Fatal(err)
			}
			l.Release(Served)
		}
		ages := func() (before, after float64) {
			_, uses := p.Uses(0, true)
			return uses["old"].Age, uses["new"].Age
		}
		use("m")
		time.Sleep(10 * time.Second)
		ages()
		slept = time.Hour
		use("n") // after the sleep, before anybody has looked
		time.Sleep(500 * time.Millisecond)
		if old, recent := ages(); old != 3610.5 || recent != 0.5 {
			t.Errorf("ages %v and %v, want 3610.5 and 0.5", old, recent)
		}
		if d, _ := p.IdleFor("old"); d != time.Hour+10500*time.Millisecond {
			t.Errorf("idle for %v", d)
		}
		for range 2 * maxSleeps {
			time.Sleep(time.Second)
			slept += time.Minute
			ages()
		}
		use("m")
		if old, recent := ages(); old != 0 || recent <= maxSleeps*60 || recent > 2*maxSleeps*61+1 {
			t.Errorf("after many sleeps: %v and %v", old, recent)
		}
		if len(p.clock.sleeps) != maxSleeps {
			t.Errorf("%d sleeps are kept", len(p.clock.sleeps))
		}
	})
}
