package router

import (
	"cmp"
	"context"
	"log/slog"
	"sync"
	"time"

	"berth/fleet"
	"berth/fleet/wire"
	"berth/internal/release"
	"berth/router/pool"
)

// reporter says once a tick what was used: what changed since the last report that this term's leader has, what is in
// flight, and everything when that leader is new or asks for it. A report that does not arrive is made up for by the
// next one. It never says that something was not used.
type reporter struct {
	pool    *pool.Pool
	sink    Sink
	log     *slog.Logger
	timeout time.Duration
	table   func() fleet.Index
	base    wire.Report // what is the same in each: router, boot, addresses

	mu      sync.Mutex // one report at a time
	seq     uint64
	term    uint64
	whole   uint64            // first report with everything since it was asked for; 0: the next one
	needAll bool              // this term's leader has not acknowledged everything yet
	acked   time.Duration     // begin of the newest report that this term's leader has
	sent    [pendingMax]begin // by sequence number, modulo its length
	last    *wire.Report      // as sent
	trouble error
}

// pendingMax is how many reports may be on their way before an acknowledgement of the first would be of no use.
const pendingMax = 64

// begin is when a report began to look; all that it leaves out was used earlier, or after.
type begin struct {
	seq uint64
	at  time.Duration
}

func newReporter(p *pool.Pool, c Config, boot uint64, table func() fleet.Index) *reporter {
	return &reporter{pool: p, sink: c.Sink, log: c.Logger, timeout: max(2*c.Tick, 2*time.Second), table: table, needAll: true,
		base: wire.Report{Version: wire.Version, Router: c.Name, Boot: boot, Release: release.Version, Address: c.Advertise, Admin: c.AdvertiseOps}}
}

// at notes where the router can be reached, unless it was told to say something else.
func (r *reporter) at(clients, operators string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.base.Address, r.base.Admin = cmp.Or(r.base.Address, clients), cmp.Or(r.base.Admin, operators)
}

// report sends one report and takes its answer. A failure is logged when it begins and when it ends.
func (r *reporter) report(ctx context.Context) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	next := r.next()
	ctx, cancel := context.WithTimeout(ctx, r.timeout)
	defer cancel()
	answer, err := r.sink.Report(ctx, next)
	switch {
	case err == nil:
		r.learn(answer)
		if r.trouble != nil {
			r.log.Info("reports arrive again")
		}
	case r.trouble == nil:
		r.log.Warn("a report did not arrive; the next one makes up for it", "error", err)
	}
	r.trouble = err
	return err
}

// next makes the next report.
// One report a tick: what changed, what is in flight, and all when it is asked for; ages only (DESIGN §8, rule 3).
func (r *reporter) next() wire.Report {
	r.seq++
	next := r.base
	next.Seq, next.All, next.Table = r.seq, r.needAll, r.table()
	at, uses := r.pool.Uses(r.acked, r.needAll)
	next.Uses, next.Demand = uses, r.pool.Demand()
	if r.needAll && r.whole == 0 {
		r.whole = r.seq
	}
	r.sent[r.seq%pendingMax] = begin{seq: r.seq, at: at}
	r.last = &next
	return next
}

// learn takes the leader's answer. An acknowledgement counts only within its term, since another leader may have less; one
// of an older term is late and says nothing.
func (r *reporter) learn(a wire.ReportAnswer) {
	if a.Term < r.term {
		return
	}
	if (a.Term > r.term || a.SendAll) && !r.needAll {
		r.needAll, r.whole = true, 0
	}
	r.term = a.Term
	ack := r.sent[a.Ack%pendingMax]
	switch {
	case a.SendAll, ack.seq != a.Ack, a.Ack == 0: // asked again; or never sent, or too long ago to know
		return
	case r.needAll && (r.whole == 0 || a.Ack < r.whole):
		return
	}
	r.needAll = false
	if ack.at > r.acked {
		r.acked = ack.at
		r.pool.Forget(ack.at)
	}
}

// state returns the last report as it was sent, for operators.
func (r *reporter) state() (last *wire.Report, trouble error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.last, r.trouble
}
