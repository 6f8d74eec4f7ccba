package admin

import (
	"net/http"
	"runtime"

	"berth/fleet/wire"
	"berth/fsm"
)

func statusRoutes() []route {
	return []route{
		{method: http.MethodGet, path: "status", access: read, where: nearest, does: "the whole fleet on one screen", handle: showStatus},
		{method: http.MethodGet, path: "idle", access: read, where: asAsked, does: "the ledger: idle, quiet, as_of, who is silent", handle: showIdle},
		{method: http.MethodGet, path: "events", access: read, where: asAsked, stream: true, does: "history (?since=SEQ or 2h, ?node, ?model, ?replica); server-sent events when asked for", raw: events},
		{method: http.MethodGet, path: "version", access: read, where: anyPeer, does: "this peer's release", handle: showVersion},
		{method: http.MethodGet, path: "openapi.json", access: read, where: anyPeer, does: "this API as an OpenAPI 3.1 document", handle: openAPI},
	}
}

func showStatus(s *Server, q *request) (any, error) {
	if _, err := q.block(anyOf(fsm.Models, fsm.Nodes, fsm.Replicas, fsm.Cluster)); err != nil {
		return nil, err
	}
	doc, index := s.summary.answer()
	q.index = &index
	return doc, nil
}

func showIdle(s *Server, q *request) (any, error) {
	return s.ledger(q.from(s.Core.State())), nil
}

func showVersion(s *Server, _ *request) (any, error) {
	return wire.VersionAnswer{Version: s.Version, Level: fsm.Level, Go: runtime.Version()}, nil
}
