package scheduler

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"berth/fleet"
	"berth/scheduler/capacity"
)

// maxTries bounds how many changes are tried for one refusal, so that a large fleet's refusals stay cheap.
const maxTries = 64

// wouldHelp names the cheapest change that would let one more replica in: one quiet replica stopped, or one node uncordoned, or a few quiet
// replicas stopped, or what is in the way moved elsewhere, or stopped though it is in use. Each was tried on the map before it is named.
func (p *planner) wouldHelp(model string, f *finder) string {
	quiet := p.quietOthers(model)
	for _, r := range quiet {
		if p.without(f, []*fleet.Replica{r}) != nil {
			return p.stopPhrase([]*fleet.Replica{r})
		}
	}
	if node := f.uncordon(); node != "" {
		return "uncordon " + node
	}
	if set := p.without(f, quiet); len(set) > 0 {
		return p.stopPhrase(set)
	}
	return p.cheapest(model, f)
}

// mostMoves bounds how many ways to make room are tried for moves.
const mostMoves = 8

// cheapest names replicas of other models, in use or not, that are in the way: to be moved where all of them fit elsewhere once this model has its place, or
// else to be stopped.
func (p *planner) cheapest(model string, f *finder) string {
	ways := p.clearings(f, func(r *fleet.Replica) bool {
		m := p.models[r.Model]
		return r.Model != model && m != nil && !m.Spec.Pin && r.State.Live() && !p.isLost(r) && !p.stopped(r.ID)
	})
	stop := ""
	for _, way := range ways[:min(len(ways), mostMoves)] {
		set := p.without(f, way.goes)
		switch {
		case len(set) == 0:
		case p.fitElsewhere(f, set):
			return p.phrase("move", set)
		case stop == "":
			stop = p.phrase("stop", set)
		}
	}
	return stop
}

// fitElsewhere says whether every replica of the set finds another place when they all have gone and f's has come. The map is as before when it returns.
func (p *planner) fitElsewhere(f *finder, set []*fleet.Replica) bool {
	var taken []claim
	take := func(f *finder) bool {
		shards, ok := f.find()
		if ok {
			f.cards.Claim(shards, &f.spec.Placement)
			taken = append(taken, claim{shards, &f.spec.Placement})
		}
		return ok
	}
	for _, r := range set {
		f.cards.Release(r.Shards, p.placement(r))
	}
	fit := take(f)
	for _, r := range set {
		fit = fit && take(p.finder(p.models[r.Model]))
	}
	for _, c := range slices.Backward(taken) {
		f.cards.Release(c.shards, c.takes)
	}
	for _, r := range set {
		f.cards.Claim(r.Shards, p.placement(r))
	}
	return fit
}

// quietOthers returns the ready replicas of other models that are certain to have been quiet for long, the longest first; never pinned ones.
func (p *planner) quietOthers(model string) []*fleet.Replica {
	var out []*fleet.Replica
	for _, r := range p.Snapshot.Replicas {
		q := p.quiet(r.ID)
		m := p.models[r.Model]
		if r.Model == model || r.State != fleet.Ready || m == nil || m.Spec.Pin {
			continue
		}
		if q.Known && q.For >= p.Settings.IdleThreshold.Std() {
			out = append(out, r)
		}
	}
	slices.SortStableFunc(out, func(a, b *fleet.Replica) int {
		return cmp.Or(cmp.Compare(p.quiet(b.ID).For, p.quiet(a.ID).For), cmp.Compare(a.ID, b.ID))
	})
	return out[:min(len(out), maxTries)]
}

// stopPhrase writes "stop r-1.17.2 of old-model (quiet 3h)".
func (p *planner) stopPhrase(set []*fleet.Replica) string { return p.phrase("stop", set) }

func (p *planner) phrase(verb string, set []*fleet.Replica) string {
	parts := make([]string, 0, len(set))
	for _, r := range set {
		state := string(r.State)
		switch q := p.quiet(r.ID); {
		case r.State == fleet.Ready && q.Known && q.For >= leastQuiet:
			state = "quiet " + roughly(q.For)
		case r.State == fleet.Ready:
			state = "in use, priority " + strconv.Itoa(p.models[r.Model].Spec.Priority)
		}
		parts = append(parts, fmt.Sprintf("%s of %s (%s)", r.ID, r.Model, state))
	}
	return verb + " " + strings.Join(parts, " and ")
}

// roughly writes a duration as people say it: "3h", "12m", "40s".
func roughly(d time.Duration) string {
	switch {
	case d >= 48*time.Hour:
		return fmt.Sprintf("%dd", d/(24*time.Hour))
	case d >= time.Hour:
		return fmt.Sprintf("%dh", d/time.Hour)
	case d >= time.Minute:
		return fmt.Sprintf("%dm", d/time.Minute)
	default:
		return fmt.Sprintf("%ds", d/time.Second)
	}
}

// uncordon returns the first cordoned node that would let a replica in if it were not, or "".
func (f *finder) uncordon() string {
	tries := 0
	for _, h := range f.cards.Hosts {
		if h.Ready || h.Node.State() != fleet.NodeCordoned || f.admit.ever(h.Node) != "" || f.admit.heldBack(h.Node.Name) != "" {
			continue
		}
		if tries++; tries > maxTries {
			return ""
		}
		if f.fitsWith(h) {
			return h.Node.Name
		}
	}
	return ""
}

// fitsWith says whether a replica would fit if the host were ready.
func (f *finder) fitsWith(h *capacity.Host) bool {
	f.cards.SetReady(h, true)
	defer f.cards.SetReady(h, false)
	return f.fits()
}
