package idle

import "time"

// Row is what is known of one replica.
type Row struct {
	ID string
	View
}

// Quiet gives the replicas that are known to have been quiet for at least so long, in no order. It looks at all of them, and lets go of the
// ledger again and again, so that witnesses do not wait for it: a row is of the moment that was asked for, and says no more than was known then or since.
func (l *Ledger) Quiet(now, atLeast time.Duration) []Row {
	var out []Row
	n := 0
	l.mu.Lock()
	defer l.mu.Unlock()
	for id, r := range l.replicas.All() {
		if d := &r.door; d.asOf != never && d.ready != never && max(0, d.asOf-max(r.used(), d.ready)) >= atLeast {
			if v := r.view(now, l.fresh); v.QuietKnown && v.Quiet >= atLeast {
				out = append(out, Row{id, v})
			}
		}
		if n++; n%scanned == 0 {
			l.mu.Unlock()
			l.mu.Lock()
		}
	}
	return out
}

// scanned is how many entries are looked at under one lock.
const scanned = 1024

// Since gives what is known of at most so many replicas that were heard of after a version of the ledger, the oldest news first, and the version
// up to which that is all. Version 0 is before everything. A router's word on a replica that was in use just before is no news: its door says so too.
func (l *Ledger) Since(now time.Duration, version uint64, most int) ([]Row, uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	rows, upTo := l.replicas.Since(version, most)
	var out []Row
	for id, r := range rows {
		out = append(out, Row{id, r.view(now, l.fresh)})
	}
	return out, upTo
}
