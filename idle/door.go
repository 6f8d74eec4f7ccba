package idle

import (
	"cmp"
	"time"

	"berth/fleet"
	"berth/fleet/wire"
)

// door is the newest word of a replica's door.
//
// A newer reading of the same shim replaces the older one as a whole, for the door remembers every use for the life of
// its shim. So a reading that came late, and therefore seemed more recently used than it was, is put right by the next.
type door struct {
	heard  bool
	shut   bool
	mark   fleet.Mark
	number uint64
	flight int

	use   time.Duration // newest use; never: none in the life of the shim
	ready time.Duration // of the engine; never: it is not ready
	// asOf is the newest stamp of this leader that a reading of this shim returned: what the door says is proven up to
	// there and no further, however lately it arrived.
	asOf time.Duration
}

// Heartbeat merges the readings of a node's doors. The caller passes on heartbeats of the node's registered identity and instance
// only: what a copied machine says of its doors is not for this ledger.
//
// A replica that the heartbeat does not name was not read (its door may hang); nothing follows from that but that its as_of grows
// old.
func (l *Ledger) Heartbeat(now time.Duration, h wire.Heartbeat) []Problem {
	p := problems{witness: "node " + shorten(h.Node)}
	l.mu.Lock()
	defer l.mu.Unlock()
	for i := range h.Readings {
		l.reading(now, &h.Readings[i], &p)
	}
	return p.all()
}

func (l *Ledger) reading(now time.Duration, rd *wire.Reading, p *problems) {
	if !validID(rd.Replica) {
		p.add(rd.Replica, "not the id of a replica; the reading was ignored")
		return
	}
	e := l.replica(rd.Replica)
	r := &e.Value
	if !r.door.precedes(rd) {
		return
	}
	next := door{
		heard: true, shut: rd.Shut, number: rd.Number, flight: max(0, rd.InFlight),
		mark: fleet.Mark{Shim: rd.Shim, Engine: rd.Engine, Admissions: rd.Admissions},
		use:  never, ready: never, asOf: never,
	}
	next.date(now, rd, p)
	next.asOf = l.proven(now, rd, &next, p)
	if r.door.heard && r.door.mark.Shim == rd.Shim {
		next.asOf = max(next.asOf, r.door.asOf) // read later, so it proves at least as much
	} else {
		r.told = max(r.told, r.door.use) // the new shim does not remember what the one before it saw
	}
	r.door = next
	l.replicas.Touch(e)
}

// precedes says whether a reading is newer than the door's known word. Shim numbers are counters on the node's disk, engine starts and
// reading numbers count within the shim; late, duplicate and re-ordered readings are dropped by them.
// (DESIGN §8, rule 4.)
func (d *door) precedes(rd *wire.Reading) bool {
	return !d.heard || cmp.Or(
		cmp.Compare(rd.Shim, d.mark.Shim),
		cmp.Compare(rd.Engine, d.mark.Engine),
		cmp.Compare(rd.Number, d.number),
	) > 0
}

// date places the ages of a reading on the leader's clock. Both count from their arrival here: a reading that lay in a buffer seems
// more recent than it is, never less.
func (d *door) date(now time.Duration, rd *wire.Reading, p *problems) {
	if rd.UseAge != nil {
		var ok bool
		if d.use, ok = moment(now, *rd.UseAge); !ok {
			p.add(rd.Replica, "a last use %g s ago cannot be; taken as used on arrival", *rd.UseAge)
		}
	}
	if rd.ReadyAge != nil {
		var ok bool
		if d.ready, ok = moment(now, *rd.ReadyAge); !ok {
			p.add(rd.Replica, "an engine ready since %g s cannot be; taken as used on arrival", *rd.ReadyAge)
			d.use = now
		}
	}
	if rd.InFlight < 0 {
		p.add(rd.Replica, "%d requests in flight cannot be; taken as used on arrival", rd.InFlight)
	}
	if rd.InFlight != 0 { // a request in flight is a use that has not ended
		d.use = now
	}
}

// proven gives the moment up to which a reading is proof: its stamp, if this leader made it in this term. The stamps of others say
// nothing here, because only the leader that made one can place it on a clock.
// (DESIGN §8, rule 6.)
func (l *Ledger) proven(now time.Duration, rd *wire.Reading, d *door, p *problems) time.Duration {
	if rd.Stamp == nil || rd.Stamp.Term != l.term || rd.Stamp.Leader != l.leader {
		return never
	}
	at := time.Duration(rd.Stamp.Clock)
	if at > now || at < 0 {
		p.add(rd.Replica, "it returns a stamp that this leader has not made (%s ahead); taken as used on arrival", at-now)
		d.use = now
		return never
	}
	return at
}
