package peer

import (
	"cmp"
	"fmt"
	"slices"

	"berth/consensus"
	"berth/fleet"
	"berth/fleet/wire"
	"berth/fsm"
)

// member is one living process that gossip sees.
type member struct {
	Role     string // roleAgent or rolePeer; others are left out
	Name     string
	ID       string // of a node: the one on its disk
	Instance uint64
	HTTP     string // where it answers
	Raft     string // of a peer
}

const (
	rolePeer  = "peer"
	roleAgent = "agent"
)

// roster answers the questions that this package has for gossip. What it says is a hint: identity and addresses that count come by registration.
type roster struct {
	living func() []member
}

// alive is the second witness of liveness: the agents seen alive, by node, with their newest instance.
func (r *roster) alive() map[string]uint64 {
	out := make(map[string]uint64)
	for _, m := range r.living() {
		if m.Role == roleAgent {
			out[m.Name] = max(out[m.Name], m.Instance)
		}
	}
	return out
}

// peers lists the peers seen alive, by id.
func (r *roster) peers() []fleet.Server {
	var out []fleet.Server
	for _, m := range r.living() {
		if m.Role == rolePeer {
			out = append(out, fleet.Server{ID: m.Name, HTTP: m.HTTP, Raft: m.Raft})
		}
	}
	slices.SortFunc(out, func(a, b fleet.Server) int { return cmp.Compare(a.ID, b.ID) })
	return out
}

// candidates are the peers that a cluster could begin with.
func (r *roster) candidates() []consensus.Candidate {
	var out []consensus.Candidate
	for _, p := range r.peers() {
		out = append(out, consensus.Candidate{ID: p.ID, Address: p.Raft})
	}
	return out
}

func (r *roster) httpOf(id string) string {
	for _, p := range r.peers() {
		if p.ID == id {
			return p.HTTP
		}
	}
	return ""
}

// discovered lists the machines that gossip sees and the state does not know, each with the reason.
func (r *roster) discovered(state *fsm.State) []wire.NodeView {
	var out []wire.NodeView
	for _, m := range r.living() {
		if m.Role != roleAgent {
			continue
		}
		v := wire.NodeView{
			Node:  fleet.Node{Name: m.Name, ID: m.ID, Instance: m.Instance, Address: m.HTTP},
			State: stateDiscovered, HeartbeatSeconds: unknown,
		}
		switch n, known := state.Node(m.Name); {
		case !known:
			v.Reason = "seen by gossip, not registered yet"
		case m.ID != "" && n.ID != m.ID:
			v.Reason = fmt.Sprintf("has the name of the registered node at %s and another id: a copied machine, or a new one under an old name", n.Address)
		default:
			continue
		}
		out = append(out, v)
	}
	slices.SortFunc(out, func(a, b wire.NodeView) int { return cmp.Compare(a.Name, b.Name) })
	return out
}
