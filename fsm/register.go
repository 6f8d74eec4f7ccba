package fsm

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"berth/fleet"
	"berth/fleet/wire"
)

// registerNode takes in what an agent says of its machine, and everything that runs there, in one entry: before it the node is unknown or
// unreachable and gets nothing, after it every card that is held is known to be.
func (tx *txn) registerNode(c NodeRegister) *fleet.Error {
	reg := c.Registration
	if err := tx.checkRegistration(reg); err != nil {
		return err
	}
	old, known := tx.nodes.get(reg.Name)
	n := nodeOf(reg)
	fresh := !known || old.Instance != reg.Instance
	n.RegisteredAt, n.Changed = tx.meta.At, tx.at
	if known {
		n.Admin, n.AdminReason, n.AdminAt, n.Drain, n.Overrides = old.Admin, old.AdminReason, old.AdminAt, old.Drain, old.Overrides
	}
	found := tx.reconcile(n.Name, reg.Running, fresh)
	n.Unmanaged = append(n.Unmanaged, found...)
	if !known || !sameNode(old, n) {
		tx.putNode(n)
	}
	tx.remarkNode(n.Name)
	return nil
}

// checkRegistration refuses who is not that machine, or an older life of it. Whether the old address of a moved machine still answers is for
// the leader to find out before it proposes.
func (tx *txn) checkRegistration(reg wire.Registration) *fleet.Error {
	if err := fleet.CheckName("node", reg.Name); err != nil {
		return fleet.AsError(err)
	}
	if reg.ID == "" {
		return fleet.Errorf(fleet.BadRequest, "the node %s registers without an id", reg.Name)
	}
	if err := checkGPUs(reg); err != nil {
		return err
	}
	if reg.Cluster != "" && reg.Cluster != tx.core.Cluster.ID {
		return fleet.Errorf(fleet.WrongCluster, "the node %s belongs to the cluster %s; this is %s", reg.Name, reg.Cluster, tx.core.Cluster.ID)
	}
	if name, ok := tx.nodeIDs.get(reg.ID); ok && *name != reg.Name {
		other, _ := tx.nodes.get(*name)
		return fleet.Errorf(fleet.DuplicateID, "the id %s of the node %s at %s is that of the node %s at %s", reg.ID, reg.Name, reg.Address, other.Name, other.Address).
			WithHint("a cloned machine needs an id of its own: empty its data directory; a renamed one: forget the old name")
	}
	old, known := tx.nodes.get(reg.Name)
	switch {
	case known && old.ID != reg.ID:
		return fleet.Errorf(fleet.DuplicateID, "the node name %s is taken by the machine at %s (id %s); the one at %s has id %s", reg.Name, old.Address, old.ID, reg.Address, reg.ID).
			WithHint("give one of them another name, or forget the old node if it is gone for good")
	case known && reg.Instance < old.Instance:
		return fleet.Errorf(fleet.StaleEpoch, "the node %s has instance %d registered; instance %d at %s is older", reg.Name, old.Instance, reg.Instance, reg.Address).
			WithHint("a copy of an old data directory is running, or its counter was lost")
	}
	return nil
}

// checkGPUs refuses an inventory whose cards cannot be told apart: claims are kept by UUID.
func checkGPUs(reg wire.Registration) *fleet.Error {
	seen := map[string]bool{}
	for _, g := range reg.Inventory.GPUs {
		if g.UUID == "" || strings.Contains(g.UUID, separator) || seen[g.UUID] {
			return fleet.Errorf(fleet.BadRequest, "the node %s lists a GPU with the UUID %q twice, or with none that can be used", reg.Name, g.UUID)
		}
		seen[g.UUID] = true
	}
	return nil
}

func nodeOf(reg wire.Registration) *fleet.Node {
	return &fleet.Node{
		Name: reg.Name, ID: reg.ID, Instance: reg.Instance, Address: reg.Address, EngineAddress: reg.EngineAddress, Version: reg.Release,
		Labels: reg.Labels, Inventory: reg.Inventory, Engines: reg.Engines, ModelRoots: reg.ModelRoots,
		Unmanaged: slices.Clone(reg.Unmanaged),
	}
}

// sameNode says whether a registration tells nothing new. It compares as JSON, the form in which rows are stored.
func sameNode(a, b *fleet.Node) bool {
	x, y := *a, *b
	y.RegisteredAt, y.Changed = x.RegisteredAt, x.Changed
	return text(x) == text(y)
}

func text(v any) string {
	data, err := json.Marshal(v)
	if err != nil {
		panic("fsm: a row that does not marshal: " + err.Error()) // rows are strings, numbers, lists and maps of strings
	}
	return string(data)
}

// reconcile matches what was found running with the replicas of the node, takes in what a restore has forgotten, and returns what matches
// nothing.
func (tx *txn) reconcile(node string, running []wire.Running, fresh bool) []fleet.Unmanaged {
	var unmanaged []fleet.Unmanaged
	tx.dropStrays(node)
	found := map[string]bool{}
	foreign := map[string]bool{} // cards held by what the node's rows do not place there
	for _, run := range running {
		if tx.confirm(node, run) {
			found[run.Replica] = true
			continue
		}
		for _, claim := range run.Claims {
			foreign[claim.GPU] = true
		}
		if tx.adopt(node, run) {
			found[run.Replica] = true
			continue
		}
		unmanaged = append(unmanaged, unmanagedOf(run))
	}
	if !fresh {
		// The same agent has run on: what it did not list may have started since it looked. Its transitions tell.
		return unmanaged
	}
	for _, r := range tx.byNode.rows(key(node, "")) {
		if !found[r.ID] && !tx.giveWay(node, r, foreign) {
			tx.missing(node, r)
		}
	}
	return unmanaged
}

func unmanagedOf(run wire.Running) fleet.Unmanaged {
	u := fleet.Unmanaged{What: fmt.Sprintf("replica %s of model %s (shim %d)", run.Replica, run.Model, run.Shim)}
	for _, claim := range run.Claims {
		u.GPUs = append(u.GPUs, claim.GPU)
	}
	return u
}

// confirm records that a shard runs on, and says whether it is one of ours: same replica, rank and node, and its claims not yet released.
func (tx *txn) confirm(node string, run wire.Running) bool {
	old, ok := tx.replicas.get(run.Replica)
	if !ok || run.Rank < 0 || old.Rank(node) != run.Rank || old.Shards[run.Rank].Released {
		return false
	}
	r := tx.edited(old)
	r.Shards[run.Rank].Shim = run.Shim
	if unconfirmed(old) && r.State.Live() {
		r.Start = max(r.Start, run.Start) // it was started again after the state that was restored
	}
	if run.Rank == 0 {
		if run.Door != nil {
			r.Door = run.Door
		}
		if run.Ready && r.State == fleet.Starting && run.Start == r.Start && r.Door != nil {
			tx.becomeReady(r)
		}
	}
	tx.putIfDifferent(old, r)
	return true
}

// missing records that a new life of the agent found no engine for a shard that should run. The order to run stands, so the replica starts
// again; what was ordered to stop is left for the agent to prove ended.
func (tx *txn) missing(node string, old *fleet.Replica) {
	rank := old.Rank(node)
	if !old.State.Live() || old.Shards[rank].Released {
		return
	}
	r := tx.edited(old)
	tx.leaveReady(r)
	if rank == 0 {
		r.Door = nil
	}
	if len(r.Shards) > 1 && old.Shards[rank].Shim != 0 && r.Shards[rank].Exit == nil {
		r.Shards[rank].Exit = &fleet.Exit{Code: -1, At: tx.meta.At} // a gang's ranks start together: the planner restarts them
	}
	r.Shards[rank].Shim = 0
	tx.putIfDifferent(old, r)
}

// putIfDifferent writes a row only when it says something new, so that a confirmation changes no index.
func (tx *txn) putIfDifferent(old, r *fleet.Replica) {
	c := *r
	c.Changed = old.Changed
	if text(*old) != text(c) {
		tx.putReplica(r)
	}
}
