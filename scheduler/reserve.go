package scheduler

import (
	"slices"
	"time"

	"berth/fleet"
	"berth/scheduler/capacity"
)

const (
	// reserveAfter is how long a replica must have waited before what it waits for is kept for it.
	reserveAfter = 2 * time.Minute
	// reserveFor is how long that is kept; then as long it is not, so that what fits nowhere else gets its turn.
	reserveFor = 30 * time.Minute
	// mostReserved bounds how many models have room kept for them in one plan.
	mostReserved = 4
)

// reserve keeps what is free on a host, now and when more comes free, from the models that are planned after this.
func (p *planner) reserve(h *capacity.Host, model string) {
	g := p.room()
	if !g.reserved[h.Index] {
		g.reserved[h.Index] = true
		g.cards.Touch(h)
		p.keeps = append(p.keeps, kept{h, model})
	}
}

// kept is a host that is reserved, and for which model.
type kept struct {
	host  *capacity.Host
	model string
}

// release ends all reservations: the next plan makes its own.
func (p *planner) release() {
	for _, k := range p.keeps {
		p.ground.reserved[k.host.Index] = false
		p.ground.cards.Touch(k.host)
	}
	p.keeps = nil
}

// keep reserves the hosts on which a model that has waited long is nearest to having room: those where least is lost if all that is in the way went. A
// large model would otherwise starve behind small ones that take each card as it comes free. Nothing is stopped for it.
func (p *planner) keep(c *cast, f *finder) {
	if !p.mayKeep(c) {
		return
	}
	ways := p.clearings(f, func(r *fleet.Replica) bool { return !p.isLost(r) })
	if len(ways) == 0 {
		return
	}
	for _, h := range ways[0].hosts {
		p.reserve(h, c.model.Name())
	}
}

func (p *planner) reservedModels() int {
	var names []string
	for _, k := range p.keeps {
		names = append(names, k.model)
	}
	slices.Sort(names)
	return len(slices.Compact(names))
}

// backfills says whether a model may use reserved hosts: it ends sooner, because it lets its replicas go by itself when nobody asks for them.
func backfills(spec *fleet.ModelSpec) bool {
	return spec.Replicas.Min == 0 && spec.Idle.UnloadAfter > 0 && spec.Idle.UnloadAfter.Std() <= reserveFor && !spec.Pin
}
