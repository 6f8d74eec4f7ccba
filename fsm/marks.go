package fsm

import (
	"slices"

	"berth/fleet"
)

// Marks of replicas that observations do not agree with. They change nothing by themselves: the replica runs on, but what it holds is not
// as it was placed.
const (
	markOvercommitted = "overcommitted"
	markSplitFabric   = "split fabric"
	markDeviceGone    = "device gone"
	markStuck         = "stuck"
)

// remarkNode computes the marks of every replica with a shard on the node again, after something about the node or its claims has changed.
func (tx *txn) remarkNode(node string) {
	for _, old := range tx.byNode.rows(key(node, "")) {
		r := tx.edited(old)
		r.Marks = tx.marks(r)
		if r.Reason == reasonUnconfirmed && !unconfirmed(r) {
			r.Reason = ""
		}
		tx.putIfDifferent(old, r)
	}
}

func (tx *txn) marks(r *fleet.Replica) []string {
	var out []string
	if tx.overcommitted(r) {
		out = append(out, markOvercommitted)
	}
	if tx.splitFabric(r) {
		out = append(out, markSplitFabric)
	}
	if tx.deviceGone(r) {
		out = append(out, markDeviceGone)
	}
	if slices.Contains(r.Marks, markStuck) {
		out = append(out, markStuck)
	}
	if tx.unheard(r) {
		out = append(out, markUnconfirmed)
	}
	return out
}

func (tx *txn) splitFabric(r *fleet.Replica) bool {
	if len(r.Shards) < 2 {
		return false
	}
	first := ""
	for i, shard := range r.Shards {
		n, ok := tx.nodes.get(shard.Node)
		if !ok {
			continue // forgotten; its shard counts as released
		}
		if n.Fabric() == "" || i > 0 && first != "" && n.Fabric() != first {
			return true
		}
		first = n.Fabric()
	}
	return false
}

func (tx *txn) deviceGone(r *fleet.Replica) bool {
	return tx.anyClaim(r, func(n *fleet.Node, c fleet.Claim) bool {
		_, ok := n.GPU(c.GPU)
		return !ok
	})
}

func (tx *txn) overcommitted(r *fleet.Replica) bool {
	return tx.anyClaim(r, func(n *fleet.Node, c fleet.Claim) bool {
		g, ok := n.GPU(c.GPU)
		return ok && (holdsUnmanaged(n, c.GPU) || exceeds(tx.claimsOn(n.Name, c.GPU), g.Memory))
	})
}

// anyClaim says whether a condition holds for one of the replica's unreleased claims.
func (tx *txn) anyClaim(r *fleet.Replica, is func(*fleet.Node, fleet.Claim) bool) bool {
	for _, shard := range r.Shards {
		n, ok := tx.nodes.get(shard.Node)
		if !ok || shard.Released {
			continue
		}
		for _, c := range shard.Claims {
			if is(n, c) {
				return true
			}
		}
	}
	return false
}

func (tx *txn) claimsOn(node, gpu string) []claim {
	return slices.Collect(claimsOf(tx.byNode.prefix(key(node, "")), node, gpu))
}

// exceeds says whether claims are more than a card has: two of which one is whole, or shares of more memory than there is.
func exceeds(claims []claim, memory fleet.Bytes) bool {
	var sum fleet.Bytes
	for _, c := range claims {
		if c.Share == 0 {
			return len(claims) > 1
		}
		if sum += c.Share; sum > memory || sum < 0 {
			return true
		}
	}
	return false
}

func holdsUnmanaged(n *fleet.Node, gpu string) bool {
	for _, u := range n.Unmanaged {
		if slices.Contains(u.GPUs, gpu) {
			return true
		}
	}
	return false
}
