package scheduler

import (
	"maps"
	"slices"
	"time"

	"berth/fleet"
)

// faultRemembered is for how long after a card was found unhealthy it is taken only where there is no other.
const faultRemembered = 24 * time.Hour

// Sightings is what a leader has seen in its term that the agreed state does not hold: what was asked for, which weights a node must have on its disk,
// because a replica became ready there, which cards were unhealthy lately, and how long each model has waited for room. A new leader begins with none: it
// places a little less well for a while. Times are on the caller's clock, any that only goes forward. It is not safe for concurrent use.
type Sightings struct {
	watched watched
	history History
	weights map[string]map[string]bool // by model: nodes
	loaded  map[string]string          // by model: the weights that those nodes have
	sick    map[string]*fleet.Node     // nodes that have an unhealthy card
	faults  map[string]time.Duration
	recent  map[string]bool
	refused map[string]time.Duration // by model: since when
}

// NewSightings returns an empty memory.
func NewSightings() *Sightings {
	return &Sightings{
		weights: map[string]map[string]bool{}, loaded: map[string]string{}, sick: map[string]*fleet.Node{},
		faults: map[string]time.Duration{}, recent: map[string]bool{}, refused: map[string]time.Duration{},
	}
}

// Observe looks at a snapshot taken at a moment, and then fills in what it knows of it.
func (o *Sightings) Observe(at time.Duration, s *Snapshot) {
	c := o.watched.all(s)
	o.history.Observe(news(c.Models))
	o.disks(s, c)
	o.cards(at, c)
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
func (o *Sightings) disks(s *Snapshot, c *Changes) {
	for _, row := range c.Models {
		if row.New == nil {
			o.forget(row.Old.Name())
		} else if o.loaded[row.New.Name()] != row.New.Spec.Engine.Weights {
			o.forget(row.New.Name())
		}
	}
	for _, row := range c.Nodes {
		if row.New == nil {
			for _, on := range o.weights {
				delete(on, row.Old.Name)
			}
		}
	}
	for _, row := range c.Replicas {
		if r := row.New; r != nil && r.State == fleet.Ready {
			o.became(s, r)
		}
	}
}

func (o *Sightings) forget(model string) {
	delete(o.weights, model)
	delete(o.loaded, model)
}

// became takes a ready replica for the proof that its nodes have what its model asks for.
func (o *Sightings) became(s *Snapshot, r *fleet.Replica) {
	i, ok := find(s.Models, r.Model, (*fleet.Model).Name)
	if !ok || s.Models[i].Generation != r.Generation || s.Models[i].Spec.Engine.Weights == "" {
		return
	}
	o.loaded[r.Model] = s.Models[i].Spec.Engine.Weights
	if o.weights[r.Model] == nil {
		o.weights[r.Model] = map[string]bool{}
	}
	for _, shard := range r.Shards {
		o.weights[r.Model][shard.Node] = true
	}
}

// cards notes the unhealthy cards, and gives those that have been healthy again for less than faultRemembered.
func (o *Sightings) cards(at time.Duration, c *Changes) {
	for _, row := range c.Nodes {
		switch {
		case row.New == nil:
			delete(o.sick, row.Old.Name)
		case slices.ContainsFunc(row.New.Inventory.GPUs, unhealthy):
			o.sick[row.New.Name] = row.New
		default:
			delete(o.sick, row.New.Name)
		}
	}
	for _, n := range o.sick {
		for _, g := range n.Inventory.GPUs {
			if unhealthy(g) {
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

func unhealthy(g fleet.GPU) bool { return g.Health == fleet.Unhealthy }
