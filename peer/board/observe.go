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
	o := wire.Observed{Leader: t.peer, Term: t.term, Nodes: make(map[string]float64)}
	o.Idle = t.idle(now)
	o.Routers = t.routers(now)
	o.Silent.Routers = []string{}
	for _, r := range o.Routers {
		if r.State == silent {
			o.Silent.Routers = append(o.Silent.Routers, r.ID)
		}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	for name, n := range t.nodes {
		o.Nodes[name] = max(0, now-n.at).Seconds()
	}
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

// idle is the ledger's word on every replica that has a door.
func (t *Term) idle(now time.Duration) []wire.IdleView {
	var out []wire.IdleView
	for r := range t.state().Replicas() {
		if r.State == fleet.Failed || r.State == fleet.Stopped {
			continue
		}
		out = append(out, idleView(r, t.Ledger.View(now, r.ID)))
	}
	return out
}

func idleView(r *fleet.Replica, v idle.View) wire.IdleView {
	row := wire.IdleView{
		ID: r.ID, Model: r.Model, IdleSeconds: unknown, QuietSeconds: unknown, AsOfSeconds: unknown, InFlight: unknown, Why: v.Why, GPUs: gpus(r),
	}
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

// gpus counts the cards of a replica, a shared one as one.
func gpus(r *fleet.Replica) int {
	n := 0
	for _, s := range r.Shards {
		n += len(s.Claims)
	}
	return n
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
			HeardSeconds: r.Unseen.Seconds(), Table: r.Last.Table, Uses: r.Uses, Demand: r.Last.Demand,
		}
		if r.Silent {
			v.State = silent
		}
		for _, u := range r.Uses {
			v.InFlight += max(0, u.InFlight)
		}
		out = append(out, v)
	}
	return out
}
