package admin

import (
	"net/http"
	"slices"
	"strings"
	"time"

	"berth/fleet"
	"berth/fleet/wire"
	"berth/fsm"
)

// defaultDrain is how long a node's drain may take when nobody says.
const defaultDrain = time.Hour

func nodeRoutes() []route {
	return []route{
		{method: http.MethodGet, path: "nodes", access: read, where: asAsked, does: "list the nodes, discovered ones too", handle: listNodes},
		{method: http.MethodGet, path: "nodes/{node}", access: read, where: asAsked, does: "one node", handle: showNode},
		{method: http.MethodGet, path: "explain/nodes/{node}", access: read, where: asAsked, does: "what a node could take, and why not more", handle: explainNode},
		{method: http.MethodPatch, path: "nodes/{node}", access: write, where: atLeader, does: "set a node's labels; null takes one away", handle: labelNode},
		{method: http.MethodDelete, path: "nodes/{node}", access: write, where: atLeader, does: "forget a node that is gone", handle: forgetNode},
		{method: http.MethodPost, path: "nodes/{node}/cordon", access: write, where: atLeader, does: "place nothing new on a node", handle: cordon(fleet.Cordoned)},
		{method: http.MethodPost, path: "nodes/{node}/uncordon", access: write, where: atLeader, does: "make a node schedulable", handle: cordon(fleet.Schedulable)},
		{method: http.MethodPut, path: "nodes/{node}/drain", access: write, where: atLeader, does: "drain a node, or join the drain that runs", handle: drainNode},
		{method: http.MethodGet, path: "nodes/{node}/drain", access: read, where: asAsked, does: "a node's drain (blocking)", handle: showDrain},
		{method: http.MethodDelete, path: "nodes/{node}/drain", access: write, where: atLeader, does: "cancel a node's drain", handle: undrainNode},
	}
}

func listNodes(s *Server, q *request) (any, error) {
	state, err := q.block(anyOf(fsm.Nodes, fsm.Replicas))
	if err != nil {
		return nil, err
	}
	rows := s.nodeViews(state)
	slices.SortFunc(rows, func(a, b wire.NodeView) int { return strings.Compare(a.Name, b.Name) })
	return page(q, rows, func(n wire.NodeView) string { return n.Name })
}

func showNode(s *Server, q *request) (any, error) {
	state, err := q.block(anyOf(fsm.Nodes, fsm.Replicas))
	if err != nil {
		return nil, err
	}
	for _, n := range s.nodeViews(state) {
		if n.Name == q.vars["node"] {
			return n, nil
		}
	}
	_, err = findNode(state, q.vars["node"])
	return nil, err
}

func findNode(state *fsm.State, name string) (*fleet.Node, error) {
	if n, ok := state.Node(name); ok {
		return n, nil
	}
	return nil, fleet.Errorf(fleet.NotFound, "no node %s is registered", name).WithHint("see berthctl nodes")
}

func explainNode(s *Server, q *request) (any, error) {
	text, err := s.Planner.ExplainNode(q.vars["node"])
	return map[string]string{"node": q.vars["node"], "text": text}, err
}

func labelNode(s *Server, q *request) (any, error) {
	var body struct {
		Labels map[string]*string `json:"labels"`
	}
	if err := q.body(&body); err != nil {
		return nil, err
	}
	if len(body.Labels) == 0 {
		return nil, fleet.Errorf(fleet.BadRequest, "labels is empty; name a label and its value, or null to take it away")
	}
	if _, err := findNode(s.Core.State(), q.vars["node"]); err != nil {
		return nil, err
	}
	return applied(q.propose(fsm.NodeLabel{Node: q.vars["node"], Set: body.Labels}))
}

// forgetNode refuses while the node's agent answers or a replica is there: forgetting says that the machine holds nothing any more.
func forgetNode(s *Server, q *request) (any, error) {
	name, state := q.vars["node"], s.Core.State()
	n, ok := state.Node(name)
	if !ok { // perhaps a repeat of what was done: the state machine knows
		return applied(q.propose(fsm.NodeForget{Node: name}))
	}
	if age, heard := s.Board.Observed().Nodes[name]; heard && age < state.Settings().NodeGrace.Std().Seconds() && !n.Unreachable {
		return nil, fleet.Errorf(fleet.Conflict, "the agent of node %s answers", name).WithHint("stop it first; forget is for a machine that is gone")
	}
	for r := range state.ReplicasOn(name) {
		if !n.Unreachable {
			return nil, fleet.Errorf(fleet.Conflict, "the replica %s of %s is on node %s", r.ID, r.Model, name).WithHint("drain the node first")
		}
	}
	return applied(q.propose(fsm.NodeForget{Node: name}))
}

func cordon(admin fleet.Admin) func(*Server, *request) (any, error) {
	return func(s *Server, q *request) (any, error) {
		why, err := q.reason()
		if err != nil {
			return nil, err
		}
		if _, err := findNode(s.Core.State(), q.vars["node"]); err != nil {
			return nil, err
		}
		return applied(q.propose(fsm.NodeAdmin{Node: q.vars["node"], Admin: admin, Reason: why}))
	}
}

func drainNode(s *Server, q *request) (any, error) {
	body := struct {
		Reason   string         `json:"reason"`
		Deadline fleet.Duration `json:"deadline"`
	}{Deadline: fleet.Duration(defaultDrain)}
	if q.ContentLength != 0 {
		if err := q.body(&body); err != nil {
			return nil, err
		}
	}
	if _, err := findNode(s.Core.State(), q.vars["node"]); err != nil {
		return nil, err
	}
	if body.Deadline == 0 {
		body.Deadline = fleet.Duration(defaultDrain)
	}
	return applied(q.propose(fsm.NodeDrain{Node: q.vars["node"], Deadline: body.Deadline, Reason: body.Reason}))
}

func showDrain(s *Server, q *request) (any, error) {
	state, err := q.block(anyOf(fsm.Nodes, fsm.Replicas))
	if err != nil {
		return nil, err
	}
	n, err := findNode(state, q.vars["node"])
	if err != nil {
		return nil, err
	}
	if n.Drain == nil {
		return nil, fleet.Errorf(fleet.NotFound, "the node %s has no drain", n.Name)
	}
	view := wire.DrainView{NodeDrain: *n.Drain, Left: []string{}}
	left := map[string]bool{}
	for r := range state.ReplicasOn(n.Name) {
		if !r.Shards[r.Rank(n.Name)].Released && r.State != fleet.Stopped {
			view.Left = append(view.Left, r.ID)
			left[r.Model] = true
		}
	}
	for _, refusal := range s.Board.Brief(noIdle).Refusals {
		if left[refusal.Model] {
			view.Waiting = append(view.Waiting, refusal.Reason)
		}
	}
	return view, nil
}

func undrainNode(s *Server, q *request) (any, error) {
	n, err := findNode(s.Core.State(), q.vars["node"])
	if err != nil {
		return nil, err
	}
	switch {
	case n.Admin == fleet.Draining:
		return applied(q.propose(fsm.NodeDrainEnd{Node: n.Name, State: "cancelled"}))
	case n.Drain != nil && n.Admin == fleet.Cordoned: // it has ended, and the node was left cordoned
		return applied(q.propose(fsm.NodeAdmin{Node: n.Name, Admin: fleet.Schedulable}))
	}
	return nil, fleet.Errorf(fleet.Conflict, "the node %s is not draining", n.Name)
}
