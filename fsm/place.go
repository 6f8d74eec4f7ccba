package fsm

import (
	"slices"

	"berth/fleet"
)

// checkPlace holds a placement against every invariant, whatever its planner thought, and returns the model.
func (tx *txn) checkPlace(p fleet.PlaceItem) (*fleet.Model, *fleet.Error) {
	if f := tx.core.Freeze; f != nil {
		return nil, fleet.Errorf(fleet.Frozen, "placement is frozen: %s", f.Reason).WithHint("berthctl thaw")
	}
	m, ok := tx.models.get(p.Model)
	switch {
	case !ok || m.Deleting:
		return nil, noModel(p.Model)
	case p.Generation != m.Generation:
		return nil, fleet.Errorf(fleet.Changed, "the model %s is at generation %d, not %d", p.Model, m.Generation, p.Generation)
	case len(p.Shards) != m.Spec.Placement.Nodes:
		return nil, fleet.Errorf(fleet.Conflict, "a replica of %s has %d shards, not %d", p.Model, m.Spec.Placement.Nodes, len(p.Shards))
	}
	check := placeCheck{tx: tx, want: m.Spec.Placement}
	for _, s := range p.Shards {
		if err := check.shard(s); err != nil {
			return nil, err
		}
	}
	return m, nil
}

// placeCheck goes through the shards of one placement; what they must have in common is kept from the first.
type placeCheck struct {
	tx     *txn
	want   fleet.PlacementSpec
	nodes  []string
	fabric string
	class  string
}

func (c *placeCheck) shard(s fleet.Shard) *fleet.Error {
	n, ok := c.tx.nodes.get(s.Node)
	switch {
	case !ok:
		return noNode(s.Node)
	case slices.Contains(c.nodes, s.Node):
		return fleet.Errorf(fleet.Conflict, "two shards of one replica on the node %s", s.Node)
	case n.State() != fleet.NodeReady:
		return fleet.Errorf(fleet.Conflict, "the node %s is %s", s.Node, n.State())
	case n.Awaited():
		return fleet.Errorf(fleet.Conflict, "the node %s has not reported since the restore", s.Node)
	}
	if err := c.sameFabric(n); err != nil {
		return err
	}
	c.nodes = append(c.nodes, s.Node)
	if err := c.shape(s); err != nil {
		return err
	}
	for i, claim := range s.Claims {
		if slices.ContainsFunc(s.Claims[:i], func(o fleet.Claim) bool { return o.GPU == claim.GPU }) {
			return fleet.Errorf(fleet.Conflict, "the GPU %s of the node %s is claimed twice by one shard", claim.GPU, s.Node)
		}
		if err := c.claim(n, claim); err != nil {
			return err
		}
	}
	return nil
}

// sameFabric lets a replica of several nodes into one known fabric alone: an unknown one is never joined with another unknown.
func (c *placeCheck) sameFabric(n *fleet.Node) *fleet.Error {
	fabric := n.Fabric()
	switch {
	case c.want.Nodes == 1:
		return nil
	case fabric == "":
		return fleet.Errorf(fleet.Conflict, "the fabric of the node %s is unknown; a replica over several nodes needs a known one", n.Name)
	case len(c.nodes) > 0 && fabric != c.fabric:
		return fleet.Errorf(fleet.Conflict, "the node %s is in the fabric %s, the shard before it in %s", n.Name, fabric, c.fabric)
	}
	c.fabric = fabric
	return nil
}

// shape holds a shard's claims against what the model asks for a node.
func (c *placeCheck) shape(s fleet.Shard) *fleet.Error {
	count, share := c.want.GPUsPerNode, c.want.GPUShare
	if share > 0 {
		count = 1
	}
	if len(s.Claims) != count {
		return fleet.Errorf(fleet.Conflict, "the shard on %s claims %d GPUs; the model asks for %d", s.Node, len(s.Claims), count)
	}
	for _, claim := range s.Claims {
		if claim.Share != share {
			return fleet.Errorf(fleet.Conflict, "the shard on %s claims %s of the GPU %s; the model asks for %s", s.Node, amount(claim.Share), claim.GPU, amount(share))
		}
	}
	return nil
}

// claim holds one claim against its card: there, healthy, ours to give, of the right kind, and with room.
func (c *placeCheck) claim(n *fleet.Node, claim fleet.Claim) *fleet.Error {
	g, ok := n.GPU(claim.GPU)
	switch {
	case !ok:
		return fleet.Errorf(fleet.Conflict, "the node %s has no GPU %s", n.Name, claim.GPU)
	case g.Health != fleet.Healthy:
		return fleet.Errorf(fleet.Conflict, "the GPU %s of the node %s is %s %s", claim.GPU, n.Name, g.Health, g.Reason)
	case g.Foreign || holdsUnmanaged(n, claim.GPU):
		return fleet.Errorf(fleet.Conflict, "the GPU %s of the node %s is held by something that Berth did not start", claim.GPU, n.Name)
	case g.Memory < c.want.GPUMemory:
		return fleet.Errorf(fleet.Conflict, "the GPU %s of the node %s has %s; the model asks for %s", claim.GPU, n.Name, g.Memory, c.want.GPUMemory)
	}
	class := n.Class(g)
	if len(c.want.Classes) > 0 && !slices.Contains(c.want.Classes, class) {
		return fleet.Errorf(fleet.Conflict, "the GPU %s of the node %s is of class %s, which the model does not allow", claim.GPU, n.Name, class)
	}
	if c.class != "" && class != c.class {
		return fleet.Errorf(fleet.Conflict, "the GPU %s of the node %s is of class %s, another of the replica of %s", claim.GPU, n.Name, class, c.class)
	}
	c.class = class
	return c.room(n, g, claim)
}

func (c *placeCheck) room(n *fleet.Node, g fleet.GPU, add fleet.Claim) *fleet.Error {
	held := c.tx.claimsOn(n.Name, g.UUID)
	if exceeds(append(held, claim{Share: add.Share}), g.Memory) {
		return fleet.Errorf(fleet.Conflict, "the GPU %s of the node %s has no room for %s: %d claims hold it", g.UUID, n.Name, amount(add.Share), len(held))
	}
	return nil
}

func amount(share fleet.Bytes) string {
	if share == 0 {
		return "the whole card"
	}
	return share.String()
}
