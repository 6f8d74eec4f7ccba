package admin

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"time"

	"berth/fleet"
	"berth/fleet/wire"
	"berth/fsm"
)

func memberRoutes() []route {
	return []route{
		{method: http.MethodGet, path: "/internal/v1/self", access: asPeer, where: anyPeer, does: "this peer's applied index and the fingerprint of its state", handle: showSelf},
		{method: http.MethodGet, path: "peers", access: read, where: asAsked, does: "list the peers", handle: listPeers},
		{method: http.MethodPost, path: "peers", access: asPeer, where: atLeader, does: "add a peer as a non-voter", handle: addPeer},
		{method: http.MethodPost, path: "peers/transfer", access: write, where: atLeader, does: "move leadership", handle: transfer},
		{method: http.MethodDelete, path: "peers/{id}", access: write, where: atLeader, does: "remove a peer", before: leaveFirst, handle: removePeer},
		{method: http.MethodPut, path: "peers/{id}/address", access: write, where: atLeader, does: "give a peer another raft address (?force: without asking who answers)", handle: onPeer(movePeer)},
		{method: http.MethodPost, path: "peers/{id}/promote", access: write, where: atLeader, does: "make a peer a voter", handle: onPeer(promotePeer)},
		{method: http.MethodPost, path: "peers/{id}/demote", access: write, where: atLeader, does: "make a peer a non-voter", handle: onPeer(demotePeer)},
		{method: http.MethodGet, path: "snapshot", access: write, where: asAsked, stream: true, does: "save the whole state (?stale: this peer's, also without a leader)", raw: saveSnapshot},
		{method: http.MethodPost, path: "snapshot/verify", access: write, where: anyPeer, stream: true, does: "check a snapshot file, changing nothing", handle: verifySnapshot},
		{method: http.MethodPut, path: "snapshot", access: write, where: atLeader, stream: true, does: "replace the whole state by a snapshot file", handle: restoreSnapshot},
	}
}

func listPeers(s *Server, q *request) (any, error) {
	rows := s.Members.Peers()
	s.askPeers(q.Context(), rows)
	return page(q, rows, peerKey)
}

func addPeer(s *Server, q *request) (any, error) {
	var body fleet.Server
	if err := q.lenient(&body); err != nil {
		return nil, err
	}
	if err := fleet.CheckName("peer", body.ID); err != nil {
		return nil, err
	}
	if body.Raft == "" {
		return nil, fleet.Errorf(fleet.BadRequest, "raft is empty; it is the peer's raft address, host:7301")
	}
	return done{}, s.Members.AddPeer(q.Context(), body)
}

// done answers a request that has nothing to say but that it was done.
type done struct{}

func onPeer(do func(*Server, *request, string) error) func(*Server, *request) (any, error) {
	return func(s *Server, q *request) (any, error) {
		id := q.vars["id"]
		for _, p := range s.Members.Peers() {
			if p.ID == id {
				return done{}, do(s, q, id)
			}
		}
		return nil, fleet.Errorf(fleet.NotFound, "no peer %s", id).WithHint("see berthctl peers")
	}
}

// leaveFirst hands leadership over when it is the leader itself that is to be removed: a leader that removes itself ends before it can say what became
// of it. The request then goes to the new leader. Where nobody can take over, the removal itself says why it cannot be.
func leaveFirst(s *Server, q *request) error {
	if k := s.Core.Knowledge(); !k.IsLeader || q.vars["id"] != s.Core.ID() {
		return nil
	}
	if err := s.Members.TransferLeadership(q.Context(), ""); err != nil {
		s.Log.Warn("the leader is to be removed, and nobody takes over", "error", err)
		return nil
	}
	look := time.NewTicker(50 * time.Millisecond)
	defer look.Stop()
	for {
		if k := s.Core.Knowledge(); !k.IsLeader && k.Leader != "" && k.LeaderHTTP != "" {
			return nil
		}
		select {
		case <-look.C:
		case <-q.Context().Done():
			return fleet.Errorf(fleet.NoLeader, "leadership was handed over for the removal of %s, and no new leader is known yet", q.vars["id"]).WithHint("repeat the request")
		}
	}
}

// removePeer takes a peer out of the configuration and forgets its row. A peer that has never announced itself has none; and one that is not in the
// configuration any more may still have one, from a removal that broke off here, or be a repeat, which the state machine remembers.
func removePeer(s *Server, q *request) (any, error) {
	id := q.vars["id"]
	err := s.Members.RemovePeer(q.Context(), id)
	if err != nil && !errors.Is(err, fleet.NotFound) {
		return nil, err
	}
	removed := err == nil
	if _, err = q.propose(fsm.ServerForget{ID: id}); removed && errors.Is(err, fleet.NotFound) {
		err = nil
	}
	return done{}, err
}

func movePeer(s *Server, q *request, id string) error {
	var body struct {
		Raft string `json:"raft"`
	}
	if err := q.body(&body); err != nil {
		return err
	}
	if _, _, err := net.SplitHostPort(body.Raft); err != nil {
		return fleet.Errorf(fleet.BadRequest, "raft %q is not host:port", body.Raft).WithHint("write the peer's raft address, for example 192.0.2.9:7301")
	}
	return s.Members.MovePeer(q.Context(), id, body.Raft, q.URL.Query().Get("force") == "true")
}

func promotePeer(s *Server, q *request, id string) error {
	return s.Members.PromotePeer(q.Context(), id)
}

func demotePeer(s *Server, q *request, id string) error { return s.Members.DemotePeer(q.Context(), id) }

func transfer(s *Server, q *request) (any, error) {
	var body struct {
		To string `json:"to"`
	}
	if q.ContentLength != 0 {
		if err := q.body(&body); err != nil {
			return nil, err
		}
	}
	return done{}, s.Members.TransferLeadership(q.Context(), body.To)
}

func saveSnapshot(s *Server, w http.ResponseWriter, q *request) error {
	state := s.Core.State()
	if state.Cluster().ID == "" {
		return fleet.Errorf(fleet.NotReady, "this peer has no state yet")
	}
	w.Header().Set("Content-Type", "application/x-berth-snapshot")
	w.Header().Set("Content-Disposition", "attachment; filename="+url.PathEscape(fmt.Sprintf("berth-%s.snapshot", state.Index())))
	buf := bufio.NewWriterSize(w, 1<<20)
	if err := state.WriteSnapshot(buf); err != nil {
		panic(http.ErrAbortHandler) // headers are out: only a broken connection says that the file is not whole
	}
	if err := buf.Flush(); err != nil {
		panic(http.ErrAbortHandler)
	}
	return nil
}

func verifySnapshot(_ *Server, q *request) (any, error) {
	return fsm.Inspect(io.LimitReader(q.Body, maxSnapshot))
}

func restoreSnapshot(s *Server, q *request) (any, error) {
	return s.Snapshots.RestoreSnapshot(q.Context(), io.LimitReader(q.Body, maxSnapshot), q.URL.Query().Get("force") == "true")
}

func peerKey(p wire.PeerView) string { return p.ID }
