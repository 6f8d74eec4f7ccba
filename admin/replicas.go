package admin

import (
	"context"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"

	"berth/fleet"
	"berth/fleet/wire"
	"berth/fsm"
	"berth/internal/listen"
)

func replicaRoutes() []route {
	return []route{
		{method: http.MethodGet, path: "replicas", access: read, where: asAsked, does: "list the replicas (?model=&node=&state=)", handle: listReplicas},
		{method: http.MethodGet, path: "replicas/{id}", access: read, where: asAsked, does: "one replica", handle: showReplica},
		{method: http.MethodPost, path: "replicas/{id}/stop", access: write, where: atLeader, does: "drain and stop a replica", handle: stopReplica},
		{method: http.MethodPost, path: "replicas/{id}/restart", access: write, where: atLeader, does: "start a replica's engine again", handle: restartReplica},
		{method: http.MethodGet, path: "replicas/{id}/logs", access: read, where: anyPeer, stream: true, does: "an engine's output (?follow&tail&shard)", raw: replicaLogs},
	}
}

// replicaStates are what a list can be asked for; "" is any. A stopped replica has no row.
var replicaStates = []fleet.ReplicaState{"", fleet.Starting, fleet.Ready, fleet.DrainingDown, fleet.Stopped, fleet.Failed}

func listReplicas(s *Server, q *request) (any, error) {
	state, err := q.block(anyOf(fsm.Replicas, fsm.Nodes))
	if err != nil {
		return nil, err
	}
	v := q.URL.Query()
	if !slices.Contains(replicaStates, fleet.ReplicaState(v.Get("state"))) {
		return nil, fleet.Errorf(fleet.BadRequest, "state is %q; write starting, ready, draining or failed", v.Get("state"))
	}
	model := modelName(state, v.Get("model"))
	var rows []wire.ReplicaView
	for _, r := range s.replicaViews(state) {
		if (model == "" || r.Model == model) &&
			(v.Get("node") == "" || r.Rank(v.Get("node")) >= 0) &&
			(v.Get("state") == "" || string(r.State) == v.Get("state")) {
			rows = append(rows, r)
		}
	}
	return page(q, rows, func(r wire.ReplicaView) string { return r.ID })
}

func showReplica(s *Server, q *request) (any, error) {
	state, err := q.block(anyOf(fsm.Replicas, fsm.Nodes))
	if err != nil {
		return nil, err
	}
	if _, err := findReplica(state, q.vars["id"]); err != nil {
		return nil, err
	}
	for _, r := range s.replicaViews(state) {
		if r.ID == q.vars["id"] {
			return r, nil
		}
	}
	return nil, fleet.Errorf(fleet.NotFound, "no replica %s", q.vars["id"])
}

func findReplica(state *fsm.State, id string) (*fleet.Replica, error) {
	if r, ok := state.Replica(id); ok {
		return r, nil
	}
	return nil, fleet.Errorf(fleet.NotFound, "no replica %s", id).WithHint("see berthctl replicas")
}

// reason reads the optional body {"reason": …} of a verb.
func (q *request) reason() (string, error) {
	var body struct {
		Reason string `json:"reason"`
	}
	if q.ContentLength == 0 {
		return "", nil
	}
	err := q.body(&body)
	return body.Reason, err
}

func stopReplica(s *Server, q *request) (any, error) {
	why, err := q.reason()
	if err != nil {
		return nil, err
	}
	return applied(q.propose(fsm.ReplicaStop{Replica: q.vars["id"], Reason: orWord(why, "asked for")}))
}

func restartReplica(s *Server, q *request) (any, error) {
	why, err := q.reason()
	if err != nil {
		return nil, err
	}
	return applied(q.propose(fsm.ReplicaRestart{Replica: q.vars["id"], Reason: orWord(why, "asked for")}))
}

func orWord(s, word string) string {
	if s == "" {
		return word
	}
	return s
}

// replicaLogs streams the output of an engine from the agent that keeps it.
func replicaLogs(s *Server, w http.ResponseWriter, q *request) error {
	r, err := findReplica(s.Core.State(), q.vars["id"])
	if err != nil {
		return err
	}
	rank := 0
	if text := q.URL.Query().Get("shard"); text != "" {
		if rank, err = strconv.Atoi(text); err != nil || rank < 0 || rank >= len(r.Shards) {
			return fleet.Errorf(fleet.BadRequest, "shard is %q; the replica %s has shards 0 to %d", text, r.ID, len(r.Shards)-1)
		}
	}
	node, ok := s.Core.State().Node(r.Shards[rank].Node)
	if !ok {
		return fleet.Errorf(fleet.NotFound, "the node %s of replica %s is not registered", r.Shards[rank].Node, r.ID)
	}
	ctx, cancel := context.WithCancel(q.Context())
	defer cancel()
	stop := context.AfterFunc(q.Context(), cancel)
	defer stop()
	go func() { // ends with the request: a peer that stops must not wait for a follower of logs
		select {
		case <-listen.Stopping(q.Context()):
			cancel()
		case <-ctx.Done():
		}
	}()
	target := "http://" + node.Address + "/replicas/" + url.PathEscape(r.ID) + "/logs?" + q.URL.RawQuery
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, target, nil)
	if err != nil {
		return fleet.Errorf(fleet.Internal, "the address of node %s: %s", node.Name, err)
	}
	res, err := s.proxy.RoundTrip(req)
	if err != nil {
		return fleet.Errorf(fleet.NotReady, "the agent of node %s, which keeps the logs, does not answer", node.Name).WithHint("its logs are also in its data directory")
	}
	defer res.Body.Close()
	w.Header().Set("Content-Type", res.Header.Get("Content-Type"))
	w.WriteHeader(res.StatusCode)
	_, _ = io.Copy(flushing{w}, res.Body) // the client may leave; the agent may end: both end the stream
	return nil
}

// flushing sends every write on at once.
type flushing struct{ http.ResponseWriter }

func (f flushing) Write(p []byte) (int, error) {
	n, err := f.ResponseWriter.Write(p)
	_ = http.NewResponseController(f.ResponseWriter).Flush()
	return n, err
}
