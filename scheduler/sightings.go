package scheduler

import (
	"maps"
	"time"

	"berth/fleet"
)

// faultRemembered is for how long after a card was found unhealthy it is taken only where there is no other.
const faultRemembered = 24 * time.Hour

// Sightings is what a leader has seen in its term that the agreed state does not hold: what was asked for, which weights a node must have on its disk,
// because a replica became ready there, which cards were unhealthy lately, and how long each model has waited for room. A new leader begins with none: it
// places a little less well for a while. Times are on the caller's clock, any that only goes forward. It is not safe for concurrent use.
type Sightings struct {
	history History
	weights map[Pair]bool
	loaded  map[string]string // by model: the weights that its pairs are about
	faults  map[string]time.Duration
	recent  map[string]bool
	refused map[string]time.Duration // by model: since when
}

// NewSightings returns an empty memory.
func NewSightings() *Sightings {
	return &Sightings{weights: map[Pair]bool{}, loaded: map[string]string{}, faults: map[string]time.Duration{}, recent: map[string]bool{}, refused: map[string]time.Duration{}}
}

// Observe looks at a snapshot taken at a moment, and then fills in what it knows of it.
func (o *Sightings) Observe(at time.Duration, s *Snapshot) {
	o.history.Observe(s.Models)
	o.disks(s)
	o.cards(at, s.Nodes)
	s.Asked, s.Weights, s.Faults = o.history.Asked(), o.weights, o.recent
	s.Waited = make(map[string]time.Duration, len(o.refused))
	for model, since := range o.refused {
		s.Waited[model] = at - since
	}
}

// Note remembers which models found no room in a plan, and since when.
func (o *Sightings) Note(at time.Duration, plan fleet.Plan) {
	still := make(map[string]time.Duration, len(plan.Refusals))
	for _, r := range plan.Refusals {
		since, ok := o.refused[r.Model]
		if !ok {
			since = at
		}
		if r.Short > 0 {
			still[r.Model] = since
		}
	}
	o.refused = still
}

// disks notes where a model's weights have been loaded, and forgets nodes and models that are gone and weights that are others now.
func (o *Sightings) disks(s *Snapshot) {
	models := make(map[string]*fleet.Model, len(s.Models))
	for _, m := range s.Models {
		models[m.Name()] = m
	}
	nodes := byName(s.Nodes)
	stale := func(p Pair, _ bool) bool {
		m := models[p.Model]
		return m == nil || nodes[p.Node] == nil || o.loaded[p.Model] != m.Spec.Engine.Weights
	}
	maps.DeleteFunc(o.weights, stale)
	for _, r := range s.Replicas {
		m := models[r.Model]
		if r.State != fleet.Ready || m == nil || m.Generation != r.Generation || m.Spec.Engine.Weights == "" {
			continue
		}
		o.loaded[r.Model] = m.Spec.Engine.Weights
		for _, shard := range r.Shards {
			o.weights[Pair{r.Model, shard.Node}] = true
		}
	}
}

// cards notes the unhealthy cards, and gives those that have been healthy again for less than faultRemembered.
func (o *Sightings) cards(at time.Duration, nodes []*fleet.Node) {
	for _, n := range nodes {
		for i := range n.Inventory.GPUs {
			if g := &n.Inventory.GPUs[i]; g.Health == fleet.Unhealthy {
				o.faults[g.UUID] = at
			}
		}
	}
	maps.DeleteFunc(o.faults, func(_ string, last time.Duration) bool { return at-last > faultRemembered })
	recent := make(map[string]bool, len(o.faults))
	for uuid := range o.faults {
		recent[uuid] = true
	}
	o.recent = recent
}
