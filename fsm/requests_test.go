package fsm

import (
	"errors"
	"fmt"
	"testing"

	"berth/fleet"
)

// TestRequestWindow fills the memory of requests: the oldest is forgotten, and a repeat of it is known to be one by the index in its id.
func TestRequestWindow(t *testing.T) {
	m := New()
	applyAt(t, m, 1, Meta{}, ClusterCreate{ID: "c1"})
	id := func(n int) string { return RequestID(fleet.Index{Epoch: 1, N: uint64(n)}, "token") }
	data, err := Encode(Meta{}, ServerForget{ID: "nobody"})
	must(t, err)
	for i := 1; i <= requestWindow+2; i++ {
		fill(t, m, uint64(i+1), id(i), data)
	}
	if n := m.State().requests.size(); n != requestWindow {
		t.Fatalf("%d requests are remembered", n)
	}
	next := uint64(requestWindow + 10)
	for _, try := range []struct {
		n    int
		code fleet.Code
		at   fleet.Index
	}{
		{1, fleet.TooOld, fleet.Index{Epoch: 1, N: next}},    // evicted: done at 2, and the newest that was evicted was at 3
		{2, fleet.TooOld, fleet.Index{Epoch: 1, N: next}},    // evicted last
		{3, fleet.NotFound, fleet.Index{Epoch: 1, N: 4}},     // the oldest that is remembered: its first answer
		{900, fleet.NotFound, fleet.Index{Epoch: 1, N: 901}}, // and one in the middle
	} {
		o := applyAt(t, m, next, Meta{Request: id(try.n)}, ServerForget{ID: "nobody"})
		if !errors.Is(o.Err, try.code) || o.Index.N != try.at.N && !errors.Is(o.Err, fleet.TooOld) {
			t.Errorf("repeat of request %d: got %s at %s, want %s at %s", try.n, fleet.CodeOf(o.Err), o.Index, try.code, try.at)
		}
	}
	checkRoundTrip(t, m.State())
	// An id that was made at the floor itself cannot have been evicted, so it is a first attempt.
	floor := m.State().core.Floor
	o := applyAt(t, m, next+1, Meta{Request: RequestID(floor, "fresh")}, FreezeSet{})
	if o.Err != nil {
		t.Errorf("a first attempt that was made at the floor: %v", o.Err)
	}
}

// fill applies an entry under another request id, without the cost of encoding 65,538 of them.
func fill(t *testing.T, m *Machine, at uint64, id string, data []byte) {
	e, k, err := open(data)
	must(t, err)
	tx := m.State().begin(fleet.Index{Epoch: 1, N: at}, Meta{Request: id})
	tx.run(k, ServerForget{ID: "nobody"}, bodyHash(e))
	m.state.Store(tx.commit())
}

func TestRequestForm(t *testing.T) {
	for id, want := range map[string]bool{
		RequestID(fleet.Index{Epoch: 3, N: 14}, "a-b"): true, "3.14-x": true,
		"3.14-": false, "3.14": false, "-": false, "": false, "x.y-z": false, "8c6f0a52-5a4b-4a53-a5a5-000000000000": false, "-1.2-x": false,
	} {
		if _, got := requestSeen(id); got != want {
			t.Errorf("%q: read as one of ours: %v", id, got)
		}
	}
}

// TestRejectionsOfMemoryAreNotRemembered keeps a wrong repeat from taking the place of the right answer.
func TestRejectionsOfMemoryAreNotRemembered(t *testing.T) {
	m := sample(t)
	meta := Meta{Request: "one"}
	first := applyAt(t, m, 20, meta, ModelScale{Model: "m", Replicas: 2})
	if o := applyAt(t, m, 21, meta, ModelScale{Model: "m", Replicas: 3}); !errors.Is(o.Err, fleet.Conflict) {
		t.Fatalf("another body under one id: %+v", o)
	}
	meta.At, meta.By = 99, "another proposer" // as when a follower takes the repeat
	if o := applyAt(t, m, 22, meta, ModelScale{Model: "m", Replicas: 2}); fmt.Sprint(o) != fmt.Sprint(first) {
		t.Fatalf("got %+v, want %+v", o, first)
	}
}
