package idle_test

import (
	"testing"
	"time"

	"berth/fleet/wire"
	"berth/idle"
)

// TestRestartedRouterAndNewLeader (C01): a router restarts with an empty memory and the leader changes in the same tick.
func TestRestartedRouterAndNewLeader(t *testing.T) {
	used := func(rd *wire.Reading) { rd.UseAge = seconds(10 * time.Second) }
	old := idle.New("peer-1", 4)
	old.Report(start, report(412, map[string]wire.Use{"r-1.1.1": {Age: 10}}))
	old.Heartbeat(start, reading(old, start, used))

	empty := report(1, nil)
	empty.Boot++
	old.Report(start, empty)
	idleFor(t, old, start, 10*time.Second)

	next := idle.New("peer-2", 5)
	base := 70 * hour // another machine, another clock
	for tick := range 3 {
		empty.Seq++
		next.Report(base+time.Duration(tick)*time.Second, empty)
		neverSeen(t, next, base)
		unknown(t, next, base, "not been heard")
	}
	stale := old.Stamp(start)
	next.Heartbeat(base, reading(next, base, used, func(rd *wire.Reading) { rd.Stamp = &stale }))
	idleFor(t, next, base, 10*time.Second)
	unknown(t, next, base, "stamp")
	next.Heartbeat(base+time.Second, reading(next, base+time.Second, func(rd *wire.Reading) { rd.UseAge = seconds(11 * time.Second) }))
	quiet(t, next, base+time.Second, 11*time.Second) // at once with its full length
}

// TestZeroDate (C01): a router sends a zero date as a last use. It counts as used on arrival, never as ages of idleness.
func TestZeroDate(t *testing.T) {
	l := idle.New("peer-1", 4)
	age := time.Duration(1<<63-1).Seconds() * 7 // what the year 1 is from now
	if _, problems := l.Report(start, report(1, map[string]wire.Use{"r-1.1.1": {Age: age}})); len(problems) != 1 {
		t.Errorf("problems %v", problems)
	}
	idleFor(t, l, start, 0)
}

// TestCutOffRouter (C03): r-1.1.1 is served through router-2 alone, which is cut off from the peers while clients still reach it.
// The silence is no idleness: with a door, the door tells; without one nothing is certain.
func TestCutOffRouter(t *testing.T) {
	l := idle.New("peer-1", 4)
	l.Report(start, report(1, map[string]wire.Use{"r-1.1.1": {Age: 3600}}))
	two := report(1, map[string]wire.Use{"r-1.1.1": {Age: 1}})
	two.Router = "router-2"
	l.Report(start, two)
	now := start + 5*time.Minute
	l.Report(now, report(2, nil))
	unknown(t, l, now, "not been heard")
	l.ForgetRouter("router-2")
	unknown(t, l, now, "not been heard")

	l.Heartbeat(now, reading(l, now, func(rd *wire.Reading) { rd.UseAge = seconds(2 * time.Second) }))
	quiet(t, l, now, 2*time.Second)
}

// TestLateFinish (C05): a replica leaves the table, returns, and a count for its former life arrives late. No count is negative and
// none pins it.
func TestLateFinish(t *testing.T) {
	l := idle.New("peer-1", 4)
	l.Report(start, report(1, map[string]wire.Use{"r-1.1.1": {InFlight: 1}}))
	l.Forget("r-1.1.1")
	_, problems := l.Report(start+time.Second, report(2, map[string]wire.Use{"r-1.1.1": {InFlight: -1}}))
	if len(problems) != 1 {
		t.Errorf("problems %v", problems)
	}
	if n, heard := l.InFlight("r-1.1.1"); n != 0 || heard {
		t.Errorf("%d in flight (%v)", n, heard)
	}
	idleFor(t, l, start+hour, hour-time.Second)
}

// TestWrongClocks (C56): clocks of all machines are wrong by days. Ages are not, and what is unknown is not a number.
func TestWrongClocks(t *testing.T) {
	for _, boot := range []time.Duration{0, time.Second, 90 * time.Second, 200 * 365 * 24 * hour} {
		l := idle.New("peer-1", 4)
		neverSeen(t, l, boot)
		l.Report(boot, report(1, map[string]wire.Use{"r-1.1.1": {Age: 7200}})) // used before this leader's machine started
		l.Heartbeat(boot, reading(l, boot))
		idleFor(t, l, boot, 2*hour)
		quiet(t, l, boot, 2*hour)
		if got, _ := l.IdleFor(boot-time.Second, "r-1.1.1"); got < 0 {
			t.Errorf("idle for %s", got)
		}
	}
}

// TestWithoutDoor: the merge of the routers' maps is right by itself for endpoints that have no door.
func TestWithoutDoor(t *testing.T) {
	l := idle.New("peer-1", 4)
	neverSeen(t, l, start)
	for router, age := range map[string]float64{"a": 40, "b": 20, "c": 30} {
		r := report(1, map[string]wire.Use{"r-1.1.1": {Age: age}})
		r.Router = router
		l.Report(start, r)
	}
	idleFor(t, l, start, 20*time.Second)
	again := report(1, nil)
	again.Router, again.Boot = "b", 8
	l.Report(start+time.Second, again)
	idleFor(t, l, start+time.Second, 21*time.Second)
	unknown(t, l, start, "not been heard")
	if _, ok := l.Mark("r-1.1.1"); ok {
		t.Error("a mark without a door")
	}
}
