package admin

import (
	"net"
	"net/http"

	"berth/fleet"
	"berth/fleet/wire"
	"berth/fsm"
)

func agentRoutes() []route {
	return []route{
		{method: http.MethodPut, path: "agents/{node}", access: asAgent, where: atLeader, does: "register a node", handle: register},
		{method: http.MethodGet, path: "agents/{node}/orders", access: asAgent, where: caughtUp, does: "a node's orders (blocking)", handle: orders},
		{method: http.MethodPost, path: "agents/{node}/transitions", access: asAgent, where: atLeader, does: "report lifecycle steps", handle: transitions},
		{method: http.MethodPost, path: "agents/{node}/heartbeat", access: asAgent, where: anyPeer, does: "report observed state; the answer is the stamp", handle: heartbeat},
		{method: http.MethodPost, path: "/internal/v1/heartbeats", access: asPeer, where: anyPeer, does: "pass heartbeats from a follower to the leader", handle: relay},
	}
}

func register(_ *Server, q *request) (any, error) {
	var r wire.Registration
	if err := q.lenient(&r); err != nil {
		return nil, err
	}
	if err := q.namesNode(r.Name); err != nil {
		return nil, err
	}
	if r.ID == "" || r.Instance == 0 {
		return nil, fleet.Errorf(fleet.BadRequest, "a registration needs id and instance")
	}
	state := q.server.Core.State()
	if r.Cluster != "" && r.Cluster != state.Cluster().ID {
		return nil, fleet.Errorf(fleet.WrongCluster, "the node %s belongs to the cluster %s; this is %s", r.Name, r.Cluster, state.Cluster().ID).
			WithHint("join the node to peers of its own cluster, or start the agent with an empty data directory")
	}
	if err := q.checkMoved(state, r); err != nil {
		return nil, err
	}
	out, err := q.propose(fsm.NodeRegister{Registration: r})
	if err != nil {
		return nil, err
	}
	return wire.Registered{Cluster: state.Cluster().ID, Index: out.Index}, nil
}

// checkMoved refuses a node that is found on another host while its agent still answers where it is registered: one of the two is a copy.
func (q *request) checkMoved(state *fsm.State, r wire.Registration) error {
	old, known := state.Node(r.Name)
	if !known || old.ID != r.ID || old.Instance == 0 || host(old.Address) == host(r.Address) {
		return nil
	}
	switch alive, sure := q.server.Board.Answers(r.Name); {
	case alive:
		return fleet.Errorf(fleet.DuplicateID, "the node %s (id %s) answers at %s, and registers from %s: one machine is a copy of the other", r.Name, r.ID, old.Address, r.Address).
			WithHint("stop the copy and empty its data directory; a machine that has moved is taken some seconds after its agent at the old address has ended")
	case !sure:
		return fleet.Errorf(fleet.NotReady, "the node %s was at %s and registers from %s; this leader is too new to say whether it still answers there", r.Name, old.Address, r.Address).
			WithHint("repeat the request in a few seconds")
	}
	return nil
}

// host is the host of an address, or the whole where it has no port.
func host(address string) string {
	h, _, err := net.SplitHostPort(address)
	if err != nil {
		return address
	}
	return h
}

// namesNode checks that a body speaks of the node in the path.
func (q *request) namesNode(name string) error {
	if err := fleet.CheckName("node", name); err != nil {
		return err
	}
	if name != q.vars["node"] {
		return fleet.Errorf(fleet.BadRequest, "the body speaks of the node %q and the path of %q", name, q.vars["node"])
	}
	return nil
}

func orders(_ *Server, q *request) (any, error) {
	node := q.vars["node"]
	state, err := q.block(func(s *fsm.State) (fleet.Index, <-chan struct{}) { return s.OrdersIndex(node), s.WatchOrders(node) })
	if err != nil {
		return nil, err
	}
	if _, ok := state.Node(node); !ok {
		return nil, fleet.Errorf(fleet.NotFound, "no node %s is registered", node)
	}
	return wire.Orders{Version: wire.Version, Cluster: state.Cluster().ID, Node: node, Index: state.Index(), Orders: state.Orders(node)}, nil
}

func transitions(_ *Server, q *request) (any, error) {
	var t wire.Transitions
	if err := q.lenient(&t); err != nil {
		return nil, err
	}
	out, err := q.propose(fsm.ReplicaTransitions{Node: q.vars["node"], Instance: t.Instance, Items: t.Items})
	if err != nil {
		return nil, err
	}
	res := wire.TransitionResults{Index: out.Index, Results: make([]string, len(t.Items))}
	for i, e := range out.Items {
		if e != nil {
			res.Results[i] = e.Error()
		}
	}
	return res, nil
}

func heartbeat(s *Server, q *request) (any, error) {
	h, err := quick(q, wire.ReadHeartbeat)
	if err != nil {
		return nil, err
	}
	if err := q.namesNode(h.Node); err != nil {
		return nil, err
	}
	return s.Board.Heartbeat(h), nil
}

func relay(s *Server, q *request) (any, error) {
	var r wire.Relay
	if err := q.lenient(&r); err != nil {
		return nil, err
	}
	return s.Board.Relay(r)
}
