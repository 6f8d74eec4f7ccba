package fsm

import (
	"berth/fleet"
)

// maxFailedRows is how many failed replicas of a model are kept for the operator to look at.
const maxFailedRows = 3

// applyModel creates a model or replaces its whole spec. The same spec again changes nothing, not even the index of the last change, so that a
// folder of model files can be applied every minute.
func (tx *txn) applyModel(c ModelApply) result {
	spec := c.Spec
	if err := spec.Check(); err != nil {
		return result{err: fleet.AsError(err)}
	}
	old, known := tx.models.get(spec.Name)
	if err := checkMatch(spec.Name, old, c.IfMatch); err != nil {
		return result{err: err}
	}
	if err := tx.checkNames(spec); err != nil {
		return result{err: err}
	}
	if !known {
		m := &fleet.Model{Spec: spec, Generation: 1, Want: spec.Replicas.Min, Created: tx.at, Changed: tx.at, CreatedAt: tx.meta.At, ChangedAt: tx.meta.At}
		tx.putModel(m)
		return result{generation: 1}
	}
	return result{generation: tx.respec(old, spec)}
}

// respec gives a model another spec, takes back a deletion, and returns the generation.
func (tx *txn) respec(old *fleet.Model, spec fleet.ModelSpec) uint64 {
	if old.Spec.Hash() == spec.Hash() && !old.Deleting {
		return old.Generation
	}
	m := *old
	m.Spec, m.Deleting, m.Changed, m.ChangedAt = spec, false, tx.at, tx.meta.At
	if old.Spec.RunHash() != spec.RunHash() {
		m.Generation++
	}
	if old.Spec.Replicas.Min != spec.Replicas.Min {
		m.Want = spec.Replicas.Min
	}
	m.Want = min(max(m.Want, spec.Replicas.Min), spec.Replicas.Max)
	tx.putModel(&m)
	tx.dropSpec(m.Name(), old.Generation)
	for _, r := range tx.byModel.rows(key(m.Name(), "")) {
		if r.Generation == m.Generation {
			tx.touchOrders(r) // what does not raise the generation takes effect on the replicas that run
		}
	}
	return m.Generation
}

// scaleModel keeps everything of the spec but the numbers of replicas, and lets the spec's own rules say whether they are right.
func (tx *txn) scaleModel(c ModelScale) result {
	old, ok := tx.models.get(c.Model)
	if !ok || old.Deleting {
		return result{err: noModel(c.Model)}
	}
	spec := old.Spec
	spec.Replicas.Min = c.Replicas
	spec.Replicas.Max = max(spec.Replicas.Max, c.Replicas)
	if err := spec.Check(); err != nil {
		return result{err: fleet.AsError(err)}
	}
	if spec.Replicas == old.Spec.Replicas && old.Want != c.Replicas {
		m := *old
		m.Want, m.Changed, m.ChangedAt = c.Replicas, tx.at, tx.meta.At
		tx.putModel(&m)
		return result{generation: m.Generation}
	}
	return result{generation: tx.respec(old, spec)}
}

// pauseRollout holds between applies: a new spec of a paused model waits too.
func (tx *txn) pauseRollout(c RolloutPause) *fleet.Error {
	old, ok := tx.models.get(c.Model)
	switch {
	case !ok || old.Deleting:
		return noModel(c.Model)
	case old.Paused == c.Paused:
		return nil
	}
	m := *old
	m.Paused, m.Changed, m.ChangedAt = c.Paused, tx.at, tx.meta.At
	tx.putModel(&m)
	return nil
}

// deleteModel marks the model; the planner drains its replicas, and the row goes with the last of them.
func (tx *txn) deleteModel(c ModelDelete) *fleet.Error {
	old, ok := tx.models.get(c.Model)
	if err := checkMatch(c.Model, old, c.IfMatch); err != nil {
		return err
	}
	if !ok {
		return noModel(c.Model)
	}
	if old.Deleting {
		return nil
	}
	m := *old
	m.Deleting, m.Changed, m.ChangedAt = true, tx.at, tx.meta.At
	tx.putModel(&m)
	tx.dropFailed(m.Name(), 0)
	tx.endModel(m.Name())
	return nil
}

// endModel removes the row of a model that is being deleted and has no replica left.
func (tx *txn) endModel(name string) {
	if m, ok := tx.models.get(name); ok && m.Deleting && len(tx.byModel.rows(key(name, ""))) == 0 {
		tx.delModel(m)
	}
}

// dropFailed removes failed rows of a model, oldest first, until at most keep are left. Only rows whose claims are all released count: the
// others still hold cards.
func (tx *txn) dropFailed(model string, keep int) {
	var ended []*fleet.Replica
	for _, r := range tx.byModel.rows(key(model, "")) {
		if r.State == fleet.Failed && r.Released() {
			ended = append(ended, r)
		}
	}
	for len(ended) > keep {
		oldest := 0
		for i, r := range ended {
			if r.Changed.Before(ended[oldest].Changed) {
				oldest = i
			}
		}
		tx.removeReplica(ended[oldest])
		ended = append(ended[:oldest], ended[oldest+1:]...)
	}
}

// dropSpec forgets the spec of a generation when neither the model nor a replica is of it any more.
func (tx *txn) dropSpec(model string, generation uint64) {
	if m, ok := tx.models.get(model); ok && m.Generation == generation {
		return
	}
	for _, r := range tx.byModel.rows(key(model, "")) {
		if r.Generation == generation {
			return
		}
	}
	tx.specs.del(specKey(model, generation))
}

// checkNames refuses a name or alias that another model has, also when it differs in case alone: layers on the way (file systems, hubs, people)
// fold case, and then two models become one.
func (tx *txn) checkNames(spec fleet.ModelSpec) *fleet.Error {
	for _, name := range append([]string{spec.Name}, spec.Aliases...) {
		for taken, owner := range tx.names.prefix(key(fold(name), "")) {
			if *owner == spec.Name {
				continue
			}
			taken = taken[len(fold(name))+len(separator):]
			if taken == name {
				return fleet.Errorf(fleet.Conflict, "the name %q belongs to the model %s", name, *owner).
					WithHint("choose another name, or take the alias away there first")
			}
			return fleet.Errorf(fleet.Conflict, "the name %q differs only in case from %q of the model %s", name, taken, *owner).
				WithHint("names are case-sensitive, but two that differ only in case are not allowed")
		}
	}
	return nil
}

// checkMatch is If-Match: it refuses a change of a model that has changed since its author looked.
func checkMatch(name string, m *fleet.Model, want *fleet.Index) *fleet.Error {
	switch {
	case want == nil:
		return nil
	case want.IsZero() && m == nil:
		return nil
	case m == nil:
		return fleet.Errorf(fleet.Changed, "there is no model %s; If-Match names its change at %s", name, want)
	case m.Changed != *want:
		return fleet.Errorf(fleet.Changed, "the model %s was last changed at %s, not at %s", name, m.Changed, want).
			WithHint("read it again, and repeat with its new index")
	}
	return nil
}

func noModel(name string) *fleet.Error {
	return fleet.Errorf(fleet.NotFound, "there is no model %s", name).WithHint("berthctl models lists them")
}
