package fsm

import (
	"maps"
	"slices"
	"strings"

	"berth/fleet"
)

// States in which a drain of a node ends.
const (
	drainRunning   = "running"
	drainDone      = "done"
	drainTimedOut  = "timed_out"
	drainCancelled = "cancelled"
)

// editNode returns a copy of a node's row that may be written to.
func (tx *txn) editNode(name string) (*fleet.Node, *fleet.Error) {
	old, ok := tx.nodes.get(name)
	if !ok {
		return nil, noNode(name)
	}
	n := *old
	n.Changed = tx.at
	return &n, nil
}

func (tx *txn) setNodeAdmin(c NodeAdmin) *fleet.Error {
	n, err := tx.editNode(c.Node)
	switch {
	case err != nil:
		return err
	case c.Admin != fleet.Schedulable && c.Admin != fleet.Cordoned:
		return fleet.Errorf(fleet.BadRequest, "a node cannot be set to %q; use cordon, uncordon or drain", c.Admin)
	case n.Admin == fleet.Draining:
		return fleet.Errorf(fleet.Conflict, "the node %s is being drained", c.Node).WithHint("end the drain first: berthctl node undrain %s", c.Node)
	case n.Admin == c.Admin:
		return nil
	}
	n.Admin, n.AdminReason, n.AdminAt = c.Admin, c.Reason, tx.meta.At
	tx.putNode(n)
	return nil
}

// drainNode starts a drain or joins the one that runs, whose deadline stands: the second operator waits for the first one's drain.
func (tx *txn) drainNode(c NodeDrain) *fleet.Error {
	n, err := tx.editNode(c.Node)
	if err != nil {
		return err
	}
	if n.Admin == fleet.Draining {
		return nil
	}
	n.Admin, n.AdminReason, n.AdminAt = fleet.Draining, c.Reason, tx.meta.At
	n.Drain = &fleet.NodeDrain{Started: tx.at, Deadline: c.Deadline, StartAt: tx.meta.At, State: drainRunning}
	tx.putNode(n)
	return nil
}

func (tx *txn) endNodeDrain(c NodeDrainEnd) *fleet.Error {
	n, err := tx.editNode(c.Node)
	switch {
	case err != nil:
		return err
	case c.State != drainDone && c.State != drainTimedOut && c.State != drainCancelled:
		return fleet.Errorf(fleet.BadRequest, "a drain cannot end as %q; use %s, %s or %s", c.State, drainDone, drainTimedOut, drainCancelled)
	case n.Admin != fleet.Draining || n.Drain == nil:
		return fleet.Errorf(fleet.Conflict, "the node %s is not being drained", c.Node)
	}
	drain := *n.Drain
	drain.State = c.State
	n.Drain, n.Admin, n.AdminAt = &drain, fleet.Cordoned, tx.meta.At
	if c.State == drainCancelled {
		n.Admin, n.AdminReason = fleet.Schedulable, ""
	}
	tx.putNode(n)
	return nil
}

// labelNode changes overrides. A label may name the fabric, so it is an observation like any other: replicas that it splits are marked.
func (tx *txn) labelNode(c NodeLabel) *fleet.Error {
	n, err := tx.editNode(c.Node)
	if err != nil {
		return err
	}
	overrides := maps.Clone(n.Overrides)
	if overrides == nil {
		overrides = map[string]string{}
	}
	for _, k := range sortedKeys(c.Set) {
		v := c.Set[k]
		switch {
		case k == "" || strings.Contains(k, separator):
			return fleet.Errorf(fleet.BadRequest, "the label %q has no usable name", k)
		case len(k) > maxLabel || v != nil && len(*v) > maxLabel:
			return fleet.Errorf(fleet.TooLarge, "the label %.40q or its value is longer than %d bytes", k, maxLabel)
		case v == nil:
			delete(overrides, k)
		default:
			overrides[k] = *v
		}
	}
	if len(overrides) > maxLabels {
		return fleet.Errorf(fleet.TooLarge, "the node %s would have %d labels; at most %d are allowed", c.Node, len(overrides), maxLabels)
	}
	if maps.Equal(overrides, n.Overrides) {
		return nil
	}
	if len(overrides) == 0 {
		overrides = nil // as it is read back from a snapshot
	}
	n.Overrides = overrides
	tx.putNode(n)
	tx.remarkNode(n.Name)
	return nil
}

// setLiveness marks a node; its replicas and claims stay as they are, because nobody has proved that nothing runs there.
func (tx *txn) setLiveness(c NodeLiveness) *fleet.Error {
	n, err := tx.editNode(c.Node)
	switch {
	case err != nil:
		return err
	case n.Instance != c.Instance:
		return fleet.Errorf(fleet.Changed, "the node %s has instance %d registered, not %d", c.Node, n.Instance, c.Instance)
	case !c.Unreachable && n.Unreachable:
		return fleet.Errorf(fleet.Conflict, "the node %s comes back by registering, with what runs on it", c.Node)
	case n.Unreachable == c.Unreachable:
		return nil
	}
	n.Unreachable, n.UnreachableReason, n.UnreachableAt = true, clip(c.Reason, maxReason), tx.meta.At
	tx.putNode(n)
	return nil
}

// forgetNode takes the node away and counts its shards as released, on the operator's word. What was to run there has failed.
func (tx *txn) forgetNode(c NodeForget) *fleet.Error {
	n, ok := tx.nodes.get(c.Node)
	if !ok {
		return noNode(c.Node)
	}
	tx.delNode(n)
	tx.dropStrays(c.Node)
	for _, old := range tx.byNode.rows(key(c.Node, "")) {
		r := tx.edited(old)
		if r.State.Live() {
			tx.failNow(r, "its node "+c.Node+" was forgotten")
		}
		for i := range r.Shards {
			if r.Shards[i].Node == c.Node {
				r.Shards[i].Released = true
			}
		}
		if r.Rank(c.Node) == 0 && r.Drain != nil {
			shutDoor(r) // the other ranks have nobody to wait for
		}
		tx.settle(r)
	}
	return nil
}

// sortedKeys is the one way to go through a map here.
func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

func noNode(name string) *fleet.Error {
	return fleet.Errorf(fleet.NotFound, "there is no node %s", name).WithHint("berthctl nodes lists them; one that gossip alone knows has not registered")
}
