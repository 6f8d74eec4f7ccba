package admin

import (
	"context"
	"encoding/json"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"berth/fleet"
	"berth/fleet/wire"
)

// chronicle is a board whose history a test writes.
type chronicle struct {
	*peer
	rows []wire.Event
}

func (c chronicle) Events(since uint64) ([]wire.Event, <-chan struct{}) {
	return slices.DeleteFunc(slices.Clone(c.rows), func(e wire.Event) bool { return e.Seq <= since }), nil
}

func chronicled(t *testing.T) *Server {
	t.Helper()
	p := newPeer(t)
	now := fleet.TimeOf(time.Now())
	hours := func(n int) fleet.Time { return now - fleet.Time(n*3_600_000) }
	b := chronicle{p, []wire.Event{
		{Seq: 1, At: hours(3), Kind: "node", Node: "n1", Text: "registered"},
		{Seq: 2, At: hours(2) + 60_000, Kind: "replica", Replica: "r-1", Model: "m", Node: "n1", Nodes: []string{"n1", "n2"}, Text: "placed"},
		{Seq: 3, At: hours(1), Kind: "model", Model: "m", Text: "created"},
		{Seq: 4, At: now, Kind: "observation", Node: "n2", Text: "silent"},
	}}
	return New(Config{Core: p, Board: b, Members: p, Snapshots: p, Planner: p, Log: p.api(nil).Log})
}

func TestEventsAreFilteredByTheServer(t *testing.T) {
	api := chronicled(t)
	for query, want := range map[string]string{
		"": "1 2 3 4", "?since=2": "3 4", "?since=2h": "2 3 4", "?since=90m": "3 4", "?node=n2": "2 4", "?node=n1": "1 2", "?model=m": "2 3",
		"?replica=r-1": "2", "?model=m&since=90m": "3", "?node=none": "", "?limit=2": "1 2", "?limit=2&next=00000000000000000003": "3 4",
	} {
		var list wire.List[wire.Event]
		w := call(api, "GET", "/api/v1/events"+query, "")
		if err := json.Unmarshal(w.Body.Bytes(), &list); err != nil || w.Code != 200 {
			t.Fatalf("%s: %d %s", query, w.Code, w.Body)
		}
		if got := seqs(list.Items); got != want {
			t.Errorf("%s: %s, want %s", query, got, want)
		}
	}
	if w := call(api, "GET", "/api/v1/events?since=yesterday", ""); codeOf(t, w) != fleet.BadRequest {
		t.Errorf("a since that is none: %s", w.Body)
	}
}

func seqs(rows []wire.Event) string {
	var out []string
	for _, e := range rows {
		out = append(out, string(rune('0'+e.Seq)))
	}
	return strings.Join(out, " ")
}

// A stream keeps the filters, and a client that comes back says where it was.
func TestAStreamOfEventsIsFilteredAndGoesOnWhereItWas(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := chronicled(t)
		for last, want := range map[string]string{"": "id: 2 id: 4", "2": "id: 4"} {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			r := httptest.NewRequestWithContext(ctx, "GET", "/api/v1/events?node=n2", nil)
			r.Header.Set("Accept", "text/event-stream")
			r.Header.Set("Last-Event-ID", last)
			w := httptest.NewRecorder()
			api.ServeHTTP(w, r)
			cancel()
			var ids []string
			for line := range strings.Lines(w.Body.String()) {
				if strings.HasPrefix(line, "id: ") {
					ids = append(ids, strings.TrimSpace(line))
				}
			}
			if got := strings.Join(ids, " "); got != want {
				t.Errorf("after %q: %s, want %s", last, got, want)
			}
		}
	})
}
