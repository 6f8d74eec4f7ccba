package idle

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"berth/fleet/wire"
)

// SilentAfter is how long a router may be unheard before it is called silent and what waits at it is no longer demand.
const SilentAfter = 5 * Tick

// forgetRouterAfter is how long a silent router stays in the list. It bounds the ledger where routers come and go under ids
// of their own. A report older than that would be taken as new, which can only say "used" too late.
const forgetRouterAfter = 24 * time.Hour

// wakeAfter is how long a replica has gone unused when its use is news for whoever follows the ledger.
const wakeAfter = 10 * time.Second

// maxWaiting is the largest number of waiting requests that one router is believed to have for one model.
const maxWaiting = 1_000_000

// router is what is known of one router: how far it has been heard in this term, and what it said last.
type router struct {
	heard time.Duration
	last  wire.Report
	full  bool // this boot has said everything it knows in this term
	uses  uses
}

// Report merges what a router saw used. The report's maps belong to the ledger afterwards.
//
// What the report does not name it says nothing about: a router that has just started changes nothing, and neither does one
// that falls silent. An entry can only make a replica look used more recently.
func (l *Ledger) Report(now time.Duration, r wire.Report) (wire.ReportAnswer, []Problem) {
	p := problems{witness: "router " + shorten(r.Router)}
	answer := wire.ReportAnswer{Term: l.term}
	if !validID(r.Router) {
		p.add("", "the report has no usable router id; it was ignored")
		return answer, p.all()
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	known := l.routers[r.Router]
	if known == nil {
		l.forgetRouters(now)
		known = &router{last: wire.Report{Router: r.Router}}
		l.routers[r.Router] = known
	} else if !newer(r, known.last) {
		return known.stale(answer, r, &p), p.all()
	}
	for id, use := range r.Uses {
		l.use(now, id, use, &p)
	}
	checkDemand(r.Demand, &p)
	// Deltas hang together only within one boot and one term: until the whole has been heard, it is asked for.
	known.full = r.All || known.full && r.Boot == known.last.Boot
	known.heard, known.last = now, r
	known.uses.take(now, r)
	answer.Ack, answer.SendAll = r.Seq, !known.full
	return answer, p.all()
}

// newer orders the reports of one router by (boot, sequence); what is not newer is dropped, whether it is late, a duplicate, or
// from an earlier life. Boots are counters on disk, so the order holds over restarts.
// (DESIGN §8, rule 4.)
func newer(r, than wire.Report) bool {
	return cmp.Or(cmp.Compare(r.Boot, than.Boot), cmp.Compare(r.Seq, than.Seq)) > 0
}

// stale answers a report that was dropped. Only the same boot is told how far it has been heard; to an earlier life nothing
// is acknowledged.
func (k *router) stale(answer wire.ReportAnswer, r wire.Report, p *problems) wire.ReportAnswer {
	if r.Boot != k.last.Boot {
		return answer
	}
	if r.Address != k.last.Address || r.Admin != k.last.Admin {
		p.add("", "two routers have this id and boot, at %q and %q; one is a copy of the other: give it a data directory of its own",
			k.last.Address, r.Address)
		return answer // nothing of the copy was heard, so nothing of it is acknowledged
	}
	answer.Ack, answer.SendAll = k.last.Seq, !k.full
	return answer
}

// use merges one entry. A count in flight means "used on arrival", however long ago the request began; it never stands, so a
// router that dies with requests in flight leaves no replica in use for ever.
// (DESIGN §8, rules 3 and 4.)
func (l *Ledger) use(now time.Duration, id string, u wire.Use, p *problems) {
	if !validID(id) {
		p.add(id, "not the id of a replica; the entry was ignored")
		return
	}
	at, ok := moment(now, u.Age)
	if !ok {
		p.add(id, "an age of %g s cannot be; taken as used on arrival", u.Age)
	}
	if u.InFlight < 0 {
		p.add(id, "%d requests in flight cannot be; taken as used on arrival", u.InFlight)
	}
	if u.InFlight != 0 {
		at = now
	}
	e := l.replica(id)
	r := &e.Value
	if !r.door.heard || at-wakeAfter > r.used() {
		l.replicas.Touch(e) // its door will say so too, but in its own time
	}
	r.told = max(r.told, at) // over witnesses the newest use wins
}

// checkDemand drops the entries that cannot be.
func checkDemand(demand map[string]wire.Demand, p *problems) {
	for model, d := range demand {
		_, ok := moment(0, d.Oldest)
		if !ok || d.Waiting < 0 || d.Waiting > maxWaiting || !validID(model) {
			p.add(model, "a demand of %d requests waiting for %g s cannot be; the entry was ignored", d.Waiting, d.Oldest)
			delete(demand, model)
		}
	}
}

// Demand is what waits for models without a ready replica, over all routers that are not silent: the sum of the requests and the
// longest wait. A router's word stands until its next report, or until it falls silent.
func (l *Ledger) Demand(now time.Duration) map[string]wire.Demand {
	l.mu.Lock()
	defer l.mu.Unlock()
	merged := make(map[string]wire.Demand)
	for _, r := range l.routers {
		since := now - r.heard
		if since > SilentAfter {
			continue
		}
		for model, d := range r.last.Demand {
			if d.Waiting == 0 {
				continue
			}
			sum := merged[model]
			merged[model] = wire.Demand{Waiting: sum.Waiting + d.Waiting, Oldest: max(sum.Oldest, d.Oldest+since.Seconds())}
		}
	}
	return merged
}

// Router is what a router last reported and how long ago.
type Router struct {
	Last   wire.Report // its maps belong to the ledger and are not to be changed
	Unseen time.Duration
	Silent bool
}

// Routers lists the routers heard in this term, by id.
func (l *Ledger) Routers(now time.Duration) []Router {
	l.mu.Lock()
	defer l.mu.Unlock()
	list := make([]Router, 0, len(l.routers))
	for _, id := range slices.Sorted(maps.Keys(l.routers)) {
		r := l.routers[id]
		unseen := max(0, now-r.heard)
		list = append(list, Router{Last: r.last, Unseen: unseen, Silent: unseen > SilentAfter})
	}
	return list
}

// Uses is what a router has itself seen used since its boot, by replica.
func (l *Ledger) Uses(now time.Duration, router string) map[string]wire.Use {
	l.mu.Lock()
	defer l.mu.Unlock()
	r := l.routers[router]
	if r == nil {
		return nil
	}
	return r.uses.list(now, r.last, &l.replicas)
}

// ForgetRouter drops a router from the list. The uses that it told of stay.
func (l *Ledger) ForgetRouter(id string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.routers, id)
}

func (l *Ledger) forgetRouters(now time.Duration) {
	maps.DeleteFunc(l.routers, func(_ string, r *router) bool { return now-r.heard > forgetRouterAfter })
}
