package board

import (
	"maps"
	"slices"
	"time"

	"berth/fleet"
	"berth/fleet/wire"
	"berth/idle"
)

// unknown stands for a duration that nobody can say.
const unknown = -1

// observed writes down all that the leader has observed at one moment.
func (t *Term) observed(now time.Duration) wire.Observed {
	o := t.brief(now)
	for i := range o.Routers {
		o.Routers[i].Uses = t.Ledger.Uses(now, o.Routers[i].ID)
	}
	for r := range t.state().Replicas() {
		if witnessed(r) {
			o.Idle = append(o.Idle, complete(r, idleView(r.ID, t.Ledger.View(now, r.ID))))
		}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	o.Nodes = make(map[string]float64, t.nodes.Len())
	for name, n := range t.nodes.All() {
		o.Nodes[name] = max(0, now-n.at).Seconds()
	}
	return o
}

// brief is what the leader has observed but for what grows with the fleet: the heartbeats of nodes, the use of replicas, and what routers have used.
func (t *Term) brief(now time.Duration) wire.Observed {
	o := wire.Observed{
		Leader: t.peer, Term: t.term, Interval: fleet.Duration(idle.Interval(t.state().NodeCount())), ListeningSeconds: (now - t.began).Seconds(),
		Routers: t.routers(now),
	}
	o.Silent.Routers = []string{}
	for _, r := range o.Routers {
		if r.State == silent {
			o.Silent.Routers = append(o.Silent.Routers, r.ID)
		}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	o.Discovered = t.discovered
	o.Silent.Agents = t.silentAgents(now)
	for _, model := range slices.Sorted(maps.Keys(t.refusals)) {
		r := t.refusals[model]
		o.Refusals = append(o.Refusals, wire.SinceRefusal{Refusal: r.Refusal, SinceSeconds: (now - r.since).Seconds()})
	}
	o.Backup = t.backup(now)
	for _, duty := range slices.Sorted(maps.Keys(t.attention)) {
		o.Attention = append(o.Attention, t.attention[duty]...)
	}
	return o
}

// quiet gives the rows of the replicas that are known to have been quiet for so long.
func (t *Term) quiet(now, atLeast time.Duration) []wire.IdleView {
	var out []wire.IdleView
	state := t.state()
	for _, row := range t.Ledger.Quiet(now, atLeast) {
		if r, ok := state.Replica(row.ID); ok && witnessed(r) {
			out = append(out, complete(r, idleView(row.ID, row.View)))
		}
	}
	return out
}

// newsRows is how many rows of a kind one answer to a follower holds at most. A fleet says some thousands in a second, whatever its size; who has
// heard nothing yet hears it all within a few ticks.
const newsRows = 20_000

// news is what the leader has observed since a follower was told last.
func (t *Term) news(now time.Duration, have wire.Have) (wire.Observed, wire.Have) {
	if have.Term != t.term {
		have = wire.Have{}
	}
	o, upTo := t.brief(now), wire.Have{Term: t.term}
	var rows []idle.Row
	rows, upTo.Idle = t.Ledger.Since(now, have.Idle, newsRows)
	for _, row := range rows {
		o.Idle = append(o.Idle, idleView(row.ID, row.View))
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	o.Nodes = make(map[string]float64)
	nodes, last := t.nodes.Since(have.Nodes, newsRows)
	for name, n := range nodes {
		o.Nodes[name] = max(0, now-n.at).Seconds()
	}
	upTo.Nodes = last
	return o, upTo
}

// witnessed says whether a replica can have a door that somebody hears.
func witnessed(r *fleet.Replica) bool { return r.State != fleet.Failed && r.State != fleet.Stopped }

func idleView(id string, v idle.View) wire.IdleView {
	row := wire.IdleView{ID: id, IdleSeconds: unknown, QuietSeconds: unknown, AsOfSeconds: unknown, InFlight: unknown, Why: v.Why}
	if v.IdleKnown {
		row.IdleSeconds = v.Idle.Seconds()
	}
	if v.QuietKnown {
		row.QuietSeconds, row.AsOfSeconds = v.Quiet.Seconds(), v.AsOf.Seconds()
	}
	if v.Heard {
		row.InFlight = v.InFlight
	}
	return row
}

// complete adds to a row what the state says of its replica. Cards are counted, a shared one as one.
func complete(r *fleet.Replica, row wire.IdleView) wire.IdleView {
	row.Model, row.GPUs = r.Model, 0
	for _, s := range r.Shards {
		row.GPUs += len(s.Claims)
	}
	return row
}

// States of a router.
const (
	reporting = "reporting"
	silent    = "silent"
)

func (t *Term) routers(now time.Duration) []wire.RouterView {
	var out []wire.RouterView
	for _, r := range t.Ledger.Routers(now) {
		v := wire.RouterView{
			ID: r.Last.Router, Address: r.Last.Address, Admin: r.Last.Admin, Boot: r.Last.Boot, Version: r.Last.Release, State: reporting,
			HeardSeconds: r.Unseen.Seconds(), Table: r.Last.Table, Demand: r.Last.Demand,
		}
		if r.Silent {
			v.State = silent
		}
		for _, u := range r.Last.Uses { // a report holds whatever is in flight
			v.InFlight += max(0, u.InFlight)
		}
		out = append(out, v)
	}
	return out
}
