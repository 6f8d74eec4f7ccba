package scheduler

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"berth/fleet"
	"berth/scheduler/capacity"
)

// maxTries bounds how many changes are tried for one refusal, so that a large fleet's refusals stay cheap.
const maxTries = 64

// wouldHelp names the cheapest change that would let one more replica in: one quiet replica stopped, or one node uncordoned, or a few quiet
// replicas stopped. Each was tried on the map before it is named.
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
	return ""
}

// quietOthers returns the ready replicas of other models that are certain to have been quiet for long, the longest first; never pinned ones.
func (p *planner) quietOthers(model string) []*fleet.Replica {
	var out []*fleet.Replica
	for _, r := range p.Snapshot.Replicas {
		q := p.Quiet[r.ID]
		m := p.models[r.Model]
		if r.Model == model || r.State != fleet.Ready || m == nil || m.Spec.Pin {
			continue
		}
		if q.Known && q.For >= p.Settings.IdleThreshold.Std() {
			out = append(out, r)
		}
	}
	slices.SortStableFunc(out, func(a, b *fleet.Replica) int {
		return cmp.Or(cmp.Compare(p.Quiet[b.ID].For, p.Quiet[a.ID].For), cmp.Compare(a.ID, b.ID))
	})
	return out[:min(len(out), maxTries)]
}

// stopPhrase writes "stop r-1.17.2 of old-model (quiet 3h)".
func (p *planner) stopPhrase(set []*fleet.Replica) string {
	parts := make([]string, 0, len(set))
	for _, r := range set {
		parts = append(parts, fmt.Sprintf("%s of %s (quiet %s)", r.ID, r.Model, roughly(p.Quiet[r.ID].For)))
	}
	return "stop " + strings.Join(parts, " and ")
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
