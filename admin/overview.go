package admin

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"runtime"
	"strconv"
	"time"

	"berth/fleet"
	"berth/fleet/wire"
	"berth/fsm"
	"berth/internal/listen"
)

func statusRoutes() []route {
	return []route{
		{method: http.MethodGet, path: "status", access: read, where: nearest, does: "the whole fleet on one screen", handle: showStatus},
		{method: http.MethodGet, path: "idle", access: read, where: asAsked, does: "the ledger: idle, quiet, as_of, who is silent", handle: showIdle},
		{method: http.MethodGet, path: "events", access: read, where: asAsked, stream: true, does: "history (?since=SEQ); server-sent events when asked for", raw: events},
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

// events answers one page of history, or follows it as server-sent events for as long as the client stays.
func events(s *Server, w http.ResponseWriter, q *request) error {
	since, err := q.since()
	if err != nil {
		return err
	}
	if q.Header.Get("Accept") != "text/event-stream" {
		rows, _ := s.Board.Events(since)
		list, err := page(q, rows, func(e wire.Event) string { return fmt.Sprintf("%020d", e.Seq) })
		if err == nil {
			s.write(w, http.StatusOK, list)
		}
		return err
	}
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("Cache-Control", "no-cache")
	w.Header().Set("X-Accel-Buffering", "no")
	stream(q.Context(), s.Board, flushing{w}, since)
	return nil
}

func (q *request) since() (uint64, error) {
	text := q.URL.Query().Get("since")
	if text == "" {
		return 0, nil
	}
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		return 0, fleet.Errorf(fleet.BadRequest, "since is %q; write the seq of the last event that you have", text)
	}
	return n, nil
}

// keepAlive is the time between comment lines on a quiet stream, so that proxies do not take it for dead.
const keepAlive = 15 * time.Second

func stream(ctx context.Context, board Board, w flushing, since uint64) {
	tick := time.NewTicker(keepAlive)
	defer tick.Stop()
	for {
		rows, more := board.Events(since)
		for _, e := range rows {
			data, _ := json.Marshal(e)
			if _, err := fmt.Fprintf(w, "id: %d\ndata: %s\n\n", e.Seq, data); err != nil {
				return
			}
			since = e.Seq
		}
		select {
		case <-more:
		case <-tick.C:
			if _, err := fmt.Fprint(w, ": still here\n\n"); err != nil {
				return
			}
		case <-ctx.Done():
			return
		case <-listen.Stopping(ctx):
			return
		}
	}
}
