package client

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"berth/fleet"
	"berth/fleet/wire"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func serve(t *testing.T, h http.HandlerFunc) string {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return s.URL
}

func refuse(code fleet.Code) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(code.Status())
		_ = json.NewEncoder(w).Encode(wire.ErrorBody{Error: fleet.Error{Code: code, Message: "refused"}})
	}
}

func newClient(t *testing.T, addrs ...string) *Client {
	t.Helper()
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	c, err := New(Config{Addrs: addrs, HTTP: &http.Client{Transport: transport}})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestAWriteMovesToTheNextPeerWithTheSameRequestID(t *testing.T) {
	var ids []string
	note := func(next http.HandlerFunc) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			ids = append(ids, r.Header.Get(wire.HeaderRequestID))
			next(w, r)
		}
	}
	dead := httptest.NewServer(nil)
	dead.Close()
	first := serve(t, note(refuse(fleet.NoLeader)))
	var body fleet.ModelSpec
	var path string
	second := serve(t, note(func(w http.ResponseWriter, r *http.Request) {
		path = r.URL.EscapedPath()
		_ = json.NewDecoder(r.Body).Decode(&body)
		w.Header().Set(wire.HeaderIndex, "2.9")
		_, _ = w.Write([]byte(`{"index":"2.9","generation":3,"changed":true}`))
	}))
	c := newClient(t, dead.URL, first, second)
	got, err := c.Apply(context.Background(), fleet.ModelSpec{Name: "org/Model:Q4"}, ApplyOptions{})
	if err != nil || got.Generation != 3 || body.Name != "org/Model:Q4" || path != "/api/v1/models/org%2FModel:Q4" {
		t.Errorf("got %+v, %v; the peer read %q at %s", got, err, body.Name, path)
	}
	if len(ids) != 2 || ids[0] == "" || ids[0] != ids[1] {
		t.Errorf("request ids %q: want one id, sent twice", ids)
	}
	if _, _, err := c.Version(context.Background()); err != nil || len(ids) != 3 {
		t.Errorf("the peer that answered is not asked first: %v, %d calls", err, len(ids))
	}
}

func TestARefusalIsTheAnswerAndIsNotAskedTwice(t *testing.T) {
	var calls atomic.Int32
	h := func(w http.ResponseWriter, r *http.Request) { calls.Add(1); refuse(fleet.InvalidSpec)(w, r) }
	_, err := newClient(t, serve(t, h), serve(t, h)).Scale(context.Background(), "m", -1)
	if !errors.Is(err, fleet.InvalidSpec) || calls.Load() != 1 {
		t.Errorf("got %v after %d calls", err, calls.Load())
	}
}

func TestAnUnknownOutcomeStaysUnknownWhateverTheNextPeerSays(t *testing.T) {
	_, err := newClient(t, serve(t, refuse(fleet.OutcomeUnknown)), serve(t, refuse(fleet.NoLeader))).Scale(context.Background(), "m", 1)
	if !errors.Is(err, fleet.OutcomeUnknown) {
		t.Errorf("got %v", err)
	}
}

func TestAStrangerIsNamed(t *testing.T) {
	addr := serve(t, func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "<html>", http.StatusTeapot) })
	_, _, err := newClient(t, addr).Status(context.Background(), ReadOptions{})
	if err == nil || !strings.Contains(err.Error(), "not an answer of Berth") {
		t.Errorf("got %v", err)
	}
}

func TestListsReadEveryPage(t *testing.T) {
	addr := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Get("next") == "" {
			_, _ = w.Write([]byte(`{"items":[{"id":"a"}],"next":"b"}`))
			return
		}
		_, _ = w.Write([]byte(`{"items":[{"id":"b"}]}`))
	})
	rows, _, err := newClient(t, addr).Peers(context.Background())
	if err != nil || len(rows) != 2 || rows[1].ID != "b" {
		t.Errorf("got %+v, %v", rows, err)
	}
}

func TestAHeartbeatMovesOnFromAPeerWithoutALeader(t *testing.T) {
	var first, second atomic.Int32
	a := serve(t, func(w http.ResponseWriter, _ *http.Request) { first.Add(1); _, _ = w.Write([]byte(`{}`)) })
	b := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		second.Add(1)
		_, _ = w.Write([]byte(`{"stamp":{"leader":"p","term":1,"clock":5}}`))
	})
	c := newClient(t, a, b)
	for range 3 {
		if _, err := c.Heartbeat(context.Background(), wire.Heartbeat{Node: "n"}); err != nil {
			t.Fatal(err)
		}
	}
	if first.Load() != 1 || second.Load() != 2 {
		t.Errorf("%d heartbeats to the peer without a stamp, %d to the other", first.Load(), second.Load())
	}
}

func TestAddressesAreCheckedAndCompleted(t *testing.T) {
	for in, want := range map[string]string{"peer-1": "http://peer-1:7300", "192.0.2.1:7400": "http://192.0.2.1:7400", "[::1]": "http://[::1]:7300", "https://p:1/x": "https://p:1"} {
		if got, err := baseURL(in); err != nil || got != want {
			t.Errorf("%s: got %s, %v", in, got, err)
		}
	}
	for _, bad := range []string{"ftp://p", "http://", "a b"} {
		if got, err := baseURL(bad); err == nil {
			t.Errorf("%q accepted as %s", bad, got)
		}
	}
	if _, err := New(Config{}); err == nil {
		t.Error("a client with no peer")
	}
}

func TestBlockingReadsCarryIndexAndWait(t *testing.T) {
	q := ReadOptions{Index: fleet.Index{Epoch: 1, N: 4}, Wait: 30 * time.Second}.query()
	if q.Get("index") != "1.4" || q.Get("wait") != "30s" {
		t.Errorf("got %v", q)
	}
	if len(ReadOptions{}.query()) != 0 {
		t.Error("a plain read has parameters")
	}
}
