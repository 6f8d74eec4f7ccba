package idle_test

import (
	"math"
	"strings"
	"testing"
	"time"

	"berth/fleet"
	"berth/fleet/wire"
	"berth/idle"
)

const hour = time.Hour

// start is when the tests' leaders are elected, on their own clocks.
const start = 5000 * hour

func seconds(d time.Duration) *float64 {
	s := d.Seconds()
	return &s
}

// reading is that of a door whose engine became ready two hours ago and was never used.
func reading(l *idle.Ledger, at time.Duration, change ...func(*wire.Reading)) wire.Heartbeat {
	stamp := l.Stamp(at)
	rd := wire.Reading{Replica: "r-1.1.1", Shim: 1, Engine: 1, Number: uint64(at / time.Second), ReadyAge: seconds(2 * hour), Stamp: &stamp}
	for _, c := range change {
		c(&rd)
	}
	return wire.Heartbeat{Node: "gpu-017", Readings: []wire.Reading{rd}}
}

func report(seq uint64, uses map[string]wire.Use) wire.Report {
	return wire.Report{Router: "router-1", Boot: 7, Seq: seq, Uses: uses}
}

func near(got, want time.Duration) bool {
	return got <= want && got >= want-want/990-time.Microsecond
}

func quiet(t *testing.T, l *idle.Ledger, now, want time.Duration) {
	t.Helper()
	if got, _, known, why := l.QuietFor(now, "r-1.1.1"); !known || !near(got, want) {
		t.Errorf("quiet for %s (%v, %q), want %s", got, known, why, want)
	}
}

func unknown(t *testing.T, l *idle.Ledger, now time.Duration, because string) {
	t.Helper()
	if got, _, known, why := l.QuietFor(now, "r-1.1.1"); known || got != 0 || !strings.Contains(why, because) {
		t.Errorf("quiet for %s (%v, %q), want unknown because %q", got, known, why, because)
	}
}

func idleFor(t *testing.T, l *idle.Ledger, now, want time.Duration) {
	t.Helper()
	if got, known := l.IdleFor(now, "r-1.1.1"); !known || !near(got, want) {
		t.Errorf("idle for %s (%v), want %s", got, known, want)
	}
}

func neverSeen(t *testing.T, l *idle.Ledger, now time.Duration) {
	t.Helper()
	if got, known := l.IdleFor(now, "r-1.1.1"); known {
		t.Errorf("idle for %s, want no use ever seen", got)
	}
}

func TestNobodyAsked(t *testing.T) {
	l := idle.New("peer-1", 4)
	unknown(t, l, start, "not been heard")
	l.Heartbeat(start, reading(l, start))
	neverSeen(t, l, start)
	quiet(t, l, start, 2*hour)
}

func TestQuietEndsAtTheStamp(t *testing.T) {
	l := idle.New("peer-1", 4)
	// Taken at the stamp, it lay in a buffer for four seconds: the ages count from now, the proof ends then.
	l.Heartbeat(start+4*time.Second, reading(l, start, func(rd *wire.Reading) { rd.UseAge = seconds(hour) }))
	quiet(t, l, start+4*time.Second, hour-4*time.Second)
	if _, asOf, _, _ := l.QuietFor(start+5*time.Second, "r-1.1.1"); asOf != 5*time.Second {
		t.Errorf("as of %s ago, want 5s", asOf)
	}
	unknown(t, l, start+5*time.Second+1, "last heard as of")
}

func TestFreshnessFollowsTheInterval(t *testing.T) {
	l := idle.New("peer-1", 4)
	h := idle.Interval(4000)
	if h != 4*time.Second || idle.Interval(3) != time.Second {
		t.Fatalf("H is %s for 4,000 nodes and %s for 3", h, idle.Interval(3))
	}
	l.SetInterval(h)
	l.Heartbeat(start, reading(l, start))
	quiet(t, l, start+11*time.Second, 2*hour)
	unknown(t, l, start+11*time.Second+1, "at most 11s")
}

func TestUnknownWithoutProof(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*wire.Reading)
		why    string
	}{
		"no stamp":       {func(rd *wire.Reading) { rd.Stamp = nil }, "stamp"},
		"another leader": {func(rd *wire.Reading) { rd.Stamp.Leader = "peer-2" }, "stamp"},
		"another term":   {func(rd *wire.Reading) { rd.Stamp.Term-- }, "stamp"},
		"from the future": {func(rd *wire.Reading) {
			rd.Stamp.Clock += int64(time.Minute)
		}, "stamp"},
		"not ready": {func(rd *wire.Reading) { rd.ReadyAge = nil }, "not ready"},
	} {
		t.Run(name, func(t *testing.T) {
			l := idle.New("peer-1", 4)
			l.Heartbeat(start, reading(l, start, c.change))
			unknown(t, l, start, c.why)
		})
	}
}

func TestUseCountsWhoeverSawIt(t *testing.T) {
	l := idle.New("peer-1", 4)
	l.Heartbeat(start, reading(l, start, func(rd *wire.Reading) { rd.UseAge = seconds(hour) }))
	l.Report(start, report(1, map[string]wire.Use{"r-1.1.1": {Age: 600}}))
	idleFor(t, l, start, 10*time.Minute)
	quiet(t, l, start, 10*time.Minute)
	other := report(1, map[string]wire.Use{"r-1.1.1": {Age: 5000}})
	other.Router = "router-2"
	l.Report(start, other)
	idleFor(t, l, start, 10*time.Minute)
}

func TestInFlightIsUseOnArrivalAndNeverStands(t *testing.T) {
	l := idle.New("peer-1", 4)
	l.Report(start, report(1, map[string]wire.Use{"r-1.1.1": {Age: 900, InFlight: 3}}))
	idleFor(t, l, start, 0)
	idleFor(t, l, start+hour, hour) // the router died with them
	l.Heartbeat(start+hour, reading(l, start+hour, func(rd *wire.Reading) { rd.UseAge, rd.InFlight = seconds(hour), 2 }))
	quiet(t, l, start+hour, 0)
	if n, heard := l.InFlight("r-1.1.1"); n != 2 || !heard {
		t.Errorf("%d in flight (%v), want 2", n, heard)
	}
	if _, ok := l.Mark("r-1.1.1"); ok {
		t.Error("a mark with requests in flight")
	}
}

func TestMark(t *testing.T) {
	l := idle.New("peer-1", 4)
	at := start
	step := func(want bool, change func(*wire.Reading)) {
		t.Helper()
		at += time.Second
		l.Heartbeat(at, reading(l, at, func(rd *wire.Reading) { rd.Shim, rd.Engine, rd.Admissions = 3, 2, 40 }, change))
		mark, ok := l.Mark("r-1.1.1")
		if ok != want || ok && mark != (fleet.Mark{Shim: 3, Engine: 2, Admissions: 40}) {
			t.Errorf("mark %+v (%v), want %v", mark, ok, want)
		}
	}
	step(true, func(*wire.Reading) {})
	step(false, func(rd *wire.Reading) { rd.InFlight = 1 })
	step(false, func(rd *wire.Reading) { rd.Shut = true })
	step(false, func(rd *wire.Reading) { rd.ReadyAge = nil })
	step(true, func(*wire.Reading) {})
}

func TestOldReadingsAreDropped(t *testing.T) {
	l := idle.New("peer-1", 4)
	newest := func(rd *wire.Reading) { rd.Shim, rd.Engine, rd.Number, rd.UseAge = 5, 3, 50, seconds(time.Minute) }
	l.Heartbeat(start, reading(l, start, newest))
	for name, older := range map[string]func(*wire.Reading){
		"duplicate":      newest,
		"earlier number": func(rd *wire.Reading) { rd.Shim, rd.Engine, rd.Number = 5, 3, 49 },
		"earlier engine": func(rd *wire.Reading) { rd.Shim, rd.Engine, rd.Number = 5, 2, 60 },
		"earlier shim":   func(rd *wire.Reading) { rd.Shim, rd.Engine, rd.Number = 4, 9, 60 },
	} {
		l.Heartbeat(start+time.Second, reading(l, start, older))
		if got, _ := l.IdleFor(start+time.Second, "r-1.1.1"); !near(got, time.Minute+time.Second) {
			t.Errorf("%s: idle for %s, want 1m1s", name, got)
		}
	}
}

func TestEngineRestartKeepsUseAndBeginsQuietAnew(t *testing.T) {
	l := idle.New("peer-1", 4)
	l.Heartbeat(start, reading(l, start, func(rd *wire.Reading) {
		rd.Engine, rd.UseAge, rd.ReadyAge = 2, seconds(hour), seconds(time.Minute)
	}))
	idleFor(t, l, start, hour)
	quiet(t, l, start, time.Minute)
}

func TestProofOutlivesAReadingWithoutStamp(t *testing.T) {
	l := idle.New("peer-1", 4)
	l.Heartbeat(start, reading(l, start))
	now := start + 2*time.Second
	l.Heartbeat(now, reading(l, now, func(rd *wire.Reading) { rd.Stamp, rd.ReadyAge = nil, seconds(2*hour+2*time.Second) })) // the agent restarted
	quiet(t, l, now, 2*hour)
}

func TestNewShimForgetsNothingHere(t *testing.T) {
	l := idle.New("peer-1", 4)
	l.Heartbeat(start, reading(l, start, func(rd *wire.Reading) { rd.UseAge = seconds(hour) }))
	l.Heartbeat(start+time.Second, reading(l, start+time.Second, func(rd *wire.Reading) { rd.Shim, rd.Number, rd.ReadyAge, rd.Stamp = 2, 1, seconds(0), nil }))
	idleFor(t, l, start+time.Second, hour+time.Second)
	unknown(t, l, start+time.Second, "stamp") // the stamp of the shim before it proves nothing of this one
}

func TestALateReadingIsPutRight(t *testing.T) {
	l := idle.New("peer-1", 4)
	l.Heartbeat(start+300*time.Second, reading(l, start, func(rd *wire.Reading) { rd.UseAge = seconds(hour) })) // 300 s late
	idleFor(t, l, start+300*time.Second, hour)
	now := start + 301*time.Second
	l.Heartbeat(now, reading(l, now, func(rd *wire.Reading) { rd.UseAge = seconds(hour + 301*time.Second) }))
	idleFor(t, l, now, hour+301*time.Second)
}

func TestMalformedIsUseOnArrival(t *testing.T) {
	wrong := []float64{-1, -1e-9, math.NaN(), math.Inf(1), math.Inf(-1), time.Since(time.Time{}).Seconds() * 7, 63_900_000_000}
	for _, age := range wrong {
		l := idle.New("peer-1", 4)
		_, problems := l.Report(start, report(1, map[string]wire.Use{"r-1.1.1": {Age: age}}))
		if len(problems) != 1 || problems[0].Subject != "r-1.1.1" || !strings.Contains(problems[0].String(), "router-1") {
			t.Errorf("age %g of a router: problems %v", age, problems)
		}
		idleFor(t, l, start, 0)

		l = idle.New("peer-1", 4)
		for _, change := range []func(*wire.Reading){
			func(rd *wire.Reading) { rd.UseAge = &age },
			func(rd *wire.Reading) { rd.ReadyAge = &age },
		} {
			if problems := l.Heartbeat(start, reading(l, start, change)); len(problems) != 1 {
				t.Errorf("age %g of a door: problems %v", age, problems)
			}
			idleFor(t, l, start, 0)
			quiet(t, l, start, 0)
			l = idle.New("peer-1", 4)
		}
	}
	l := idle.New("peer-1", 4)
	l.Heartbeat(start, reading(l, start, func(rd *wire.Reading) { rd.InFlight = -2 }))
	quiet(t, l, start, 0)
	if n, _ := l.InFlight("r-1.1.1"); n != 0 {
		t.Errorf("%d in flight", n)
	}
}

func TestProblemsOfOneMessageAreBounded(t *testing.T) {
	uses := map[string]wire.Use{}
	for i := range 5000 {
		uses[strings.Repeat("x", 1+i%100)+string(rune('a'+i%26))] = wire.Use{Age: -1}
	}
	_, problems := idle.New("peer-1", 4).Report(start, report(1, uses))
	if len(problems) > 20 || !strings.Contains(problems[len(problems)-1].What, "more") {
		t.Errorf("%d problems, the last %v", len(problems), problems[len(problems)-1])
	}
}

func TestForgetAndRetain(t *testing.T) {
	l := idle.New("peer-1", 4)
	l.Report(start, report(1, map[string]wire.Use{"r-1.1.1": {}, "r-1.2.1": {}, "r-1.3.1": {}}))
	l.Forget("r-1.1.1")
	neverSeen(t, l, start)
	if n := l.Retain(func(id string) bool { return id == "r-1.3.1" }); n != 1 {
		t.Errorf("%d dropped, want 1", n)
	}
	if _, known := l.IdleFor(start, "r-1.3.1"); !known {
		t.Error("the one that exists was dropped")
	}
}
