package admin

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"time"

	"berth/fleet"
	"berth/fleet/wire"
	"berth/internal/listen"
)

// wanted is which events a caller asks for.
type wanted struct {
	seq                  uint64 // after this one
	after                fleet.Time
	node, model, replica string // empty: any
}

// wanted reads ?since, the seq of the last event that the caller has or an age such as 2h, and the filters. A browser that comes back says with
// a header where it was.
func (q *request) wanted() (wanted, error) {
	v := q.URL.Query()
	w := wanted{node: v.Get("node"), model: modelName(q.server.Core.State(), v.Get("model")), replica: v.Get("replica")}
	since := v.Get("since")
	if last := q.Header.Get("Last-Event-ID"); last != "" {
		since = last
	}
	if since == "" {
		return w, nil
	}
	seq, err := strconv.ParseUint(since, 10, 64)
	if err == nil {
		w.seq = seq
		return w, nil
	}
	var age fleet.Duration
	if age.UnmarshalText([]byte(since)) != nil {
		return w, fleet.Errorf(fleet.BadRequest, "since is %q; write the seq of the last event that you have, or an age such as 2h", since)
	}
	w.after = fleet.TimeOf(time.Now().Add(-age.Std()))
	return w, nil
}

func (w wanted) keeps(e wire.Event) bool {
	return e.At >= w.after && (w.node == "" || w.node == e.Node || slices.Contains(e.Nodes, w.node)) &&
		(w.model == "" || w.model == e.Model) && (w.replica == "" || w.replica == e.Replica)
}

// events answers one page of history, or follows it as server-sent events for as long as the client stays.
func events(s *Server, w http.ResponseWriter, q *request) error {
	want, err := q.wanted()
	if err != nil {
		return err
	}
	if q.Header.Get("Accept") != "text/event-stream" {
		rows, _ := s.Board.Events(want.seq)
		rows = slices.DeleteFunc(rows, func(e wire.Event) bool { return !want.keeps(e) })
		list, err := page(q, rows, func(e wire.Event) string { return fmt.Sprintf("%020d", e.Seq) })
		if err == nil {
			s.write(w, http.StatusOK, list)
		}
		return err
	}
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("Cache-Control", "no-cache")
	w.Header().Set("X-Accel-Buffering", "no")
	stream(q.Context(), s.Board, flushing{w}, want)
	return nil
}

// keepAlive is the time between comment lines on a quiet stream, so that proxies do not take it for dead.
const keepAlive = 15 * time.Second

func stream(ctx context.Context, board Board, w flushing, want wanted) {
	tick := time.NewTicker(keepAlive)
	defer tick.Stop()
	for {
		rows, more := board.Events(want.seq)
		for _, e := range rows {
			want.seq = e.Seq
			if !want.keeps(e) {
				continue
			}
			data, _ := json.Marshal(e)
			if _, err := fmt.Fprintf(w, "id: %d\ndata: %s\n\n", e.Seq, data); err != nil {
				return
			}
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
