package idle

import (
	"fmt"
	"time"

	"berth/fleet"
)

// View is everything that the ledger says of one replica at one moment. Whoever is to stop a replica takes verdict and mark from one
// View: a mark read later could belong to a use that the verdict does not know.
type View struct {
	Idle      time.Duration // since the newest use that any witness saw
	IdleKnown bool          // false: no use was ever seen

	Quiet      time.Duration // for how long, up to AsOf, it is certain that nobody used it
	AsOf       time.Duration // age of the proof
	QuietKnown bool
	Why        string // why Quiet is unknown; empty when it is known

	Mark     fleet.Mark // of the reading that Quiet rests on
	Markable bool       // the door was open with nothing in flight, so Mark can carry a conditional drain
	InFlight int        // at the door, at its last reading
	Heard    bool       // the door was heard in this term
}

// View gives what is known of a replica.
func (l *Ledger) View(now time.Duration, id string) View {
	l.mu.Lock()
	defer l.mu.Unlock()
	e := l.replicas.Entry(id)
	if e == nil {
		return View{Why: whyUnheard}
	}
	return e.Value.view(now, l.fresh)
}

func (r *replica) view(now, fresh time.Duration) View {
	v := View{Mark: r.door.mark, InFlight: r.door.flight, Heard: r.door.heard}
	v.Markable = r.door.heard && !r.door.shut && r.door.flight == 0 && r.door.ready != never
	if used := r.used(); used != never {
		v.Idle, v.IdleKnown = max(0, now-used), true
	}
	v.Quiet, v.AsOf, v.Why = r.quiet(now, fresh)
	v.QuietKnown = v.Why == ""
	return v
}

// IdleFor is the time since the newest use that any witness saw; false when none saw any. It is an observation and no verdict: a use
// may have gone unsaid.
func (l *Ledger) IdleFor(now time.Duration, id string) (time.Duration, bool) {
	v := l.View(now, id)
	return v.Idle, v.IdleKnown
}

// QuietFor is for how long, up to the moment asOf ago, it is certain that nobody used the replica. A replica that nobody ever asked for
// is quiet since its engine became ready. When that is not known, why says what is missing.
func (l *Ledger) QuietFor(now time.Duration, id string) (quiet, asOf time.Duration, known bool, why string) {
	v := l.View(now, id)
	return v.Quiet, v.AsOf, v.QuietKnown, v.Why
}

// Mark is the door's mark at its last reading, if it was open then with nothing in flight.
func (l *Ledger) Mark(id string) (fleet.Mark, bool) {
	v := l.View(0, id)
	return v.Mark, v.Markable
}

// InFlight is how many requests the door had at its last reading; false when it has not been heard in this term.
func (l *Ledger) InFlight(id string) (int, bool) {
	v := l.View(0, id)
	return v.InFlight, v.Heard
}

// used is the newest use that any witness saw.
func (r *replica) used() time.Duration { return max(r.told, r.door.use) }

// Reasons for which nothing is certain.
const (
	whyUnheard   = "its door has not been heard since this leader was elected"
	whyUnstamped = "its door has been heard, but not yet since a stamp of this leader"
	whyNotReady  = "its engine is not ready"
)

// quiet applies the rule: as_of less the newest of every use and of the engine's becoming ready. Only the door can say it, so without
// a fresh and proven word of the door nothing is certain, whatever routers say or leave unsaid.
// (DESIGN §8, rules 7 and 8: what nobody ever asked for is quiet since its engine became ready.)
func (r *replica) quiet(now, fresh time.Duration) (quiet, asOf time.Duration, why string) {
	switch d := &r.door; {
	case !d.heard:
		return 0, 0, whyUnheard
	case d.asOf == never:
		return 0, 0, whyUnstamped
	case now-d.asOf > fresh:
		return 0, now - d.asOf, TooOld(now-d.asOf, fresh)
	case d.ready == never:
		return 0, now - d.asOf, whyNotReady
	default:
		asOf := min(d.asOf, now) // who goes through many asks of one moment, and doors may speak meanwhile
		return max(0, asOf-max(r.used(), d.ready)), now - asOf, ""
	}
}

// TooOld says why a door's word of that age is no proof any more.
func TooOld(asOf, fresh time.Duration) string {
	return fmt.Sprintf("its door was last heard as of %s ago; at most %s are certain", asOf.Round(time.Second), fresh)
}
