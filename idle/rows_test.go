package idle_test

import (
	"slices"
	"testing"
	"time"

	"berth/fleet/wire"
	"berth/idle"
)

// heard makes a ledger that has heard replicas r-1.1.1 to r-1.1.3, quiet for an hour, a minute and not at all.
func heard(t *testing.T) *idle.Ledger {
	t.Helper()
	l := idle.New("peer-1", 4)
	stamp := l.Stamp(start)
	l.Heartbeat(start, wire.Heartbeat{Node: "n1", Readings: []wire.Reading{
		{Replica: "r-1.1.1", Shim: 1, Engine: 1, Number: 1, ReadyAge: seconds(hour), Stamp: &stamp},
		{Replica: "r-1.1.2", Shim: 1, Engine: 1, Number: 1, ReadyAge: seconds(hour), UseAge: seconds(time.Minute), Stamp: &stamp},
		{Replica: "r-1.1.3", Shim: 1, Engine: 1, Number: 1, ReadyAge: seconds(hour), UseAge: seconds(0), InFlight: 1, Stamp: &stamp},
		{Replica: "r-1.1.4", Shim: 1, Engine: 1, Number: 1, Stamp: &stamp}, // its engine is not ready
		{Replica: "r-1.1.5", Shim: 1, Engine: 1, Number: 1, ReadyAge: seconds(hour)},
	}})
	return l
}

func ids(rows []idle.Row) []string {
	var out []string
	for _, r := range rows {
		out = append(out, r.ID)
	}
	slices.Sort(out)
	return out
}

func TestQuietGivesWhatIsKnownToBeQuietForLong(t *testing.T) {
	l := heard(t)
	for atLeast, want := range map[time.Duration][]string{
		0: {"r-1.1.1", "r-1.1.2", "r-1.1.3"}, 30 * time.Second: {"r-1.1.1", "r-1.1.2"}, 10 * time.Minute: {"r-1.1.1"}, 2 * hour: nil,
	} {
		rows := l.Quiet(start, atLeast)
		if got := ids(rows); !slices.Equal(got, want) {
			t.Errorf("quiet for %s: %v, want %v", atLeast, got, want)
		}
		for _, r := range rows {
			if r.View != l.View(start, r.ID) {
				t.Errorf("%s: %+v, and asked alone %+v", r.ID, r.View, l.View(start, r.ID))
			}
		}
	}
	if rows := l.Quiet(start+hour, 0); len(rows) > 0 {
		t.Errorf("an hour later nothing is certain: %+v", rows)
	}
}

// Who asks of a moment is told what was certain at that moment, though the door has been heard since.
func TestAnAnswerIsOfTheMomentThatWasAskedFor(t *testing.T) {
	l := heard(t)
	stamp := l.Stamp(start + 3*time.Second)
	l.Heartbeat(start+3*time.Second, wire.Heartbeat{Node: "n1", Readings: []wire.Reading{
		{Replica: "r-1.1.1", Shim: 1, Engine: 1, Number: 2, ReadyAge: seconds(hour + 3*time.Second), Stamp: &stamp},
	}})
	v := l.View(start+time.Second, "r-1.1.1")
	if !v.QuietKnown || v.AsOf != 0 || v.Quiet > hour+time.Second {
		t.Errorf("as of %s ago quiet for %s", v.AsOf, v.Quiet)
	}
}

// Whoever follows the ledger hears of each word of a door, and of a router's word on what was not in use: nothing else is news.
func TestSince(t *testing.T) {
	l := heard(t)
	rows, first := l.Since(start, 0, 3)
	if got := ids(rows); !slices.Equal(got, []string{"r-1.1.1", "r-1.1.2", "r-1.1.3"}) {
		t.Fatalf("the oldest three: %v", got)
	}
	rows, all := l.Since(start, first, 100)
	if got := ids(rows); !slices.Equal(got, []string{"r-1.1.4", "r-1.1.5"}) {
		t.Fatalf("the others: %v", got)
	}
	use := func(at time.Duration, seq uint64, id string) {
		l.Report(at, report(seq, map[string]wire.Use{id: {Age: 0.5}}))
	}
	use(start+time.Second, 1, "r-1.1.3") // in use before and since
	if rows, _ := l.Since(start, all, 100); len(rows) > 0 {
		t.Errorf("a router's word on what was in use is news: %v", ids(rows))
	}
	use(start+time.Second, 2, "r-1.1.1")
	use(start+time.Second, 3, "r-1.1.9") // of a door that was never heard
	rows, _ = l.Since(start+time.Second, all, 100)
	if got := ids(rows); !slices.Equal(got, []string{"r-1.1.1", "r-1.1.9"}) || rows[0].Idle > time.Second {
		t.Errorf("news: %+v", rows)
	}
}
