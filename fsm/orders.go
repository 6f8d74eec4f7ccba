package fsm

import (
	"strings"

	"berth/fleet"
	"berth/fleet/wire"
)

// Orders returns everything that the agent of a node is to run or to stop, in order of replica. A shard that has proved its cards empty has no
// order any more; one that is not listed is no order at all.
func (s *State) Orders(node string) []wire.Order {
	var out []wire.Order
	for r := range s.ReplicasOn(node) {
		if rank := r.Rank(node); !r.Shards[rank].Released {
			out = append(out, s.order(r, rank))
		}
	}
	return out
}

func (s *State) order(r *fleet.Replica, rank int) wire.Order {
	o := wire.Order{
		ID: r.Order, Action: wire.ActionRun, Replica: r.ID, Model: r.Model, Generation: r.Generation, RunHash: r.RunHash,
		Rank: rank, Start: r.Start, Claims: r.Shards[rank].Claims, Ranks: s.ranks(r), Master: r.Master,
	}
	if spec, ok := s.Spec(r.Model, r.Generation); ok {
		o.Spec = *spec
	}
	if !r.State.Live() {
		o.Action, o.Drain = wire.ActionStop, r.Drain
	}
	return o
}

func (s *State) ranks(r *fleet.Replica) []wire.RankAddress {
	out := make([]wire.RankAddress, len(r.Shards))
	for i, shard := range r.Shards {
		out[i] = wire.RankAddress{Node: shard.Node, GPUs: len(shard.Claims)}
		if n, ok := s.nodes.get(shard.Node); ok {
			out[i].Host = rankHost(n)
		}
	}
	return out
}

// rankHost returns the host on which a node's ranks are reached: its engine address, or the host of its agent.
func rankHost(n *fleet.Node) string {
	host := n.EngineAddress
	if host == "" {
		host = n.Address
	}
	if i := strings.LastIndexByte(host, ':'); i >= 0 && (strings.Count(host, ":") == 1 || strings.Contains(host, "]:")) {
		host = host[:i]
	}
	return strings.Trim(host, "[]")
}

// Table returns what routers route by, in order of name. A model without a replica is there too, so that a request for it can wait; one that is
// being deleted is not.
func (s *State) Table() []wire.TableModel {
	var out []wire.TableModel
	for m := range s.Models() {
		if m.Deleting {
			continue
		}
		out = append(out, wire.TableModel{
			Name: m.Name(), Aliases: m.Spec.Aliases, Generation: m.Generation, Serve: m.Spec.Serve, Max: m.Spec.Replicas.Max,
			Created: m.CreatedAt, Endpoints: s.endpoints(m.Name()),
		})
	}
	return out
}

func (s *State) endpoints(model string) []wire.Endpoint {
	var newest uint64 // generation of the newest replica that is ready and reachable
	for r := range s.ReplicasOf(model) {
		if r.State == fleet.Ready && r.Generation > newest && !s.Lost(r) {
			newest = r.Generation
		}
	}
	var out []wire.Endpoint
	for r := range s.ReplicasOf(model) {
		conditional := r.State == fleet.DrainingDown && r.Drain.Mark != nil && !r.Drain.DoorShut
		doubted := r.State == fleet.Starting && unconfirmed(r)
		lost := doubted || s.Lost(r)
		if r.Door == nil || r.State != fleet.Ready && !conditional && !doubted || lost && r.Generation < newest {
			continue
		}
		e := wire.Endpoint{
			Replica: r.ID, Node: r.Shards[0].Node, Generation: r.Generation, Address: r.Door.Address, Key: r.Door.Key,
			State: r.State, Lost: lost, Conditional: conditional,
		}
		if doubted {
			e.State = fleet.Ready // as far as anybody knows, until its node says otherwise
		}
		out = append(out, e)
	}
	return out
}
