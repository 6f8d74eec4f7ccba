package admin

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"berth/fleet"
	"berth/fleet/wire"
	"berth/fsm"
	"berth/status"
)

// followed is a follower that heard its leader's observations so long ago.
func followed(t *testing.T, age float64) *peer {
	t.Helper()
	p := newPeer(t)
	p.knowledge.IsLeader = false
	p.observed = wire.Observed{Leader: "p2", AgeSeconds: age}
	return p
}

func statusOf(t *testing.T, w *httptest.ResponseRecorder) wire.Status {
	t.Helper()
	var s wire.Status
	if err := json.Unmarshal(w.Body.Bytes(), &s); err != nil || w.Code != 200 {
		t.Fatalf("status: %d %s", w.Code, w.Body)
	}
	return s
}

func TestAFollowerAnswersStatusItselfWhileItHearsTheLeader(t *testing.T) {
	p := followed(t, 0.75)
	place(t, p)
	p.observed.Idle = []wire.IdleView{{ID: firstReplica(t, p), IdleSeconds: -1, QuietSeconds: 7200, AsOfSeconds: 1, GPUs: 1}}
	api := p.api(func(*http.Request) (*http.Response, error) { return nil, errors.New("it was forwarded") })
	s := statusOf(t, call(api, "GET", "/api/v1/status", ""))
	if s.Peer != "p1" || s.ObservedAgeMS < 750 || s.ObservedAgeMS > 2000 || len(s.Attention) > 0 || s.Replicas.Ready != 1 {
		t.Errorf("status %+v", s)
	}
	if len(s.IdleReplicas) != 1 || s.IdleReplicas[0].QuietSeconds != 7200 || s.IdleReplicas[0].IdleSeconds != -1 || s.IdleReplicas[0].AsOfSeconds < 1.75 {
		t.Errorf("what is said to be certain must be so as of a moment that is no later: %+v", s.IdleReplicas)
	}
}

func TestAFollowerThatDoesNotHearTheLeaderAsksIt(t *testing.T) {
	for _, age := range []float64{-1, 4, 60} {
		asked := 0
		api := followed(t, age).api(func(*http.Request) (*http.Response, error) {
			asked++
			return &http.Response{StatusCode: 200, Header: http.Header{}, Body: io.NopCloser(strings.NewReader(`{"peer":"p2"}`))}, nil
		})
		if s := statusOf(t, call(api, "GET", "/api/v1/status", "")); asked != 1 || s.Peer != "p2" {
			t.Errorf("observations of %v s: asked %d times, answered by %q", age, asked, s.Peer)
		}
		call(api, "GET", "/api/v1/status?consistency=stale", "")
		call(api, "GET", "/api/v1/status", "", wire.HeaderForwarded, "p3")
		if asked != 1 {
			t.Errorf("a stale or a forwarded question went on to the leader")
		}
		call(api, "GET", "/api/v1/status?consistency=consistent", "")
		if asked != 2 {
			t.Errorf("a consistent question did not go to the leader")
		}
	}
}

func TestWhenTheLeaderDoesNotAnswerStatusSaysWhatThisPeerKnows(t *testing.T) {
	api := followed(t, 60).api(func(*http.Request) (*http.Response, error) { return nil, errors.New("connection refused") })
	s := statusOf(t, call(api, "GET", "/api/v1/status", ""))
	if s.Peer != "p1" || s.ObservedAgeMS < 60_000 || len(s.Attention) != 1 || !strings.Contains(s.Attention[0], "1m0s ago; idle times are unknown") {
		t.Errorf("status %+v", s)
	}
	if w := call(api, "GET", "/api/v1/status?consistency=consistent", ""); codeOf(t, w) != fleet.NoLeader {
		t.Errorf("a consistent answer by a follower: %s", w.Body)
	}
}

func TestWithoutALeaderNobodyIsQuietOrSilent(t *testing.T) {
	p := followed(t, 1)
	place(t, p)
	p.observed.Idle = []wire.IdleView{{ID: firstReplica(t, p), QuietSeconds: 7200, AsOfSeconds: 1}}
	p.observed.Silent = wire.Silent{Agents: []string{"n1"}}
	p.knowledge.Leader = ""
	s := statusOf(t, call(p.api(nil), "GET", "/api/v1/status", ""))
	if len(s.IdleReplicas) > 0 || len(s.Silent.Agents) > 0 || s.GPUs[0].Used != 1 || len(s.Attention) != 1 || !strings.HasPrefix(s.Attention[0], "no leader") {
		t.Errorf("status %+v", s)
	}
}

// Whoever writes through a follower finds it written in that follower's status. The write itself does not wait for that, nor does any other read.
func TestAFollowersStatusWaitsForWhatWasWrittenThroughIt(t *testing.T) {
	p := followed(t, 0.5)
	var waited []uint64
	late := lagging{p, func(index uint64) { waited = append(waited, index) }}
	api := New(Config{Core: late, Board: p, Members: p, Snapshots: p, Planner: p, Log: p.api(nil).Log, Transport: roundTrip(func(*http.Request) (*http.Response, error) {
		return &http.Response{StatusCode: 200, Header: http.Header{wire.HeaderIndex: {"1.77"}}, Body: io.NopCloser(strings.NewReader("{}"))}, nil
	})})
	for _, path := range []string{"/api/v1/status", "/api/v1/models"} {
		if call(api, "GET", path, ""); len(waited) != 0 {
			t.Errorf("GET %s waited for %d; nothing was written", path, waited)
		}
	}
	if call(api, "PUT", "/api/v1/models/m", spec("m")); len(waited) != 0 {
		t.Errorf("the write waited for %d", waited)
	}
	if call(api, "GET", "/api/v1/models?consistency=stale", ""); len(waited) != 0 {
		t.Errorf("a stale read waited for %d", waited)
	}
	for range 2 {
		call(api, "GET", "/api/v1/status", "")
	}
	if !slices.Equal(waited, []uint64{77}) {
		t.Errorf("status waited for %d, want once for 77", waited)
	}
}

type lagging struct {
	*peer
	wait func(index uint64)
}

func (l lagging) WaitApplied(_ context.Context, index uint64) error { l.wait(index); return nil }

// The answer that is kept up and written by hand is what encoding/json writes of a full recount.
func TestTheKeptUpAnswerIsARecount(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPeer(t)
		api := p.api(nil)
		done, stop := running(t, api)
		defer func() { stop(); <-done }()
		place(t, p)
		for i, fabric := range []string{"fa", `odd "fabrics":null <&> ü`, ""} {
			p.do(t, registration(fmt.Sprint("m", i), fabric))
			time.Sleep(time.Second)
			got := statusOf(t, call(api, "GET", "/api/v1/status", ""))
			in := api.input(p.State())
			in.Peer = "p1"
			want := status.Summarize(in)
			want.KnowledgeAgeMS, want.ObservedAgeMS = got.KnowledgeAgeMS, got.ObservedAgeMS
			if g, w := mustJSON(t, got), mustJSON(t, want); g != w {
				t.Errorf("kept up %s\nrecount %s", g, w)
			}
		}
	})
}

// place makes a fleet of one node and one ready replica.
func place(t *testing.T, p *peer) {
	t.Helper()
	p.do(t, registration("n1", ""))
	ms := fleet.DefaultedSpec()
	if err := json.Unmarshal([]byte(spec("m")), &ms); err != nil {
		t.Fatal(err)
	}
	p.do(t, fsm.ModelApply{Spec: ms})
	p.do(t, fsm.PlanApply{Plan: fleet.Plan{Items: []fleet.PlanItem{{Place: &fleet.PlaceItem{Model: "m", Generation: 1, Shards: []fleet.Shard{{Node: "n1", Claims: []fleet.Claim{{GPU: "n1-g"}}}}}}}}})
	r, _ := p.State().Replica(firstReplica(t, p))
	for _, to := range []string{wire.BecameStarting, wire.BecameReady} {
		p.do(t, fsm.ReplicaTransitions{Node: "n1", Instance: 1, Items: []wire.Transition{{Replica: r.ID, Order: r.Order, Start: r.Start, To: to, Door: &fleet.Door{Address: "192.0.2.1:20000", Key: "k"}}}})
	}
}

func registration(name, fabric string) fsm.NodeRegister {
	return fsm.NodeRegister{Registration: wire.Registration{
		Version: 1, Name: name, ID: "id-" + name, Instance: 1, Address: "192.0.2.1:7310",
		Inventory: fleet.Inventory{Fabric: fabric, GPUs: []fleet.GPU{{UUID: name + "-g", Class: "c", Memory: fleet.GiB, Health: fleet.Healthy}}},
		Engines:   []fleet.EngineOffer{{Driver: "sim", Hub: true}},
	}}
}

func firstReplica(t *testing.T, p *peer) string {
	t.Helper()
	for r := range p.State().Replicas() {
		return r.ID
	}
	t.Fatal("nothing was placed")
	return ""
}

// running runs the API until stop is called.
func running(t *testing.T, api *Server) (done chan error, stop func()) {
	ctx, cancel := context.WithCancel(t.Context())
	done = make(chan error, 1)
	go func() { done <- api.Run(ctx) }()
	synctest.Wait()
	return done, cancel
}

func mustJSON(t *testing.T, v any) string {
	t.Helper()
	data, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

func TestEveryPeerServesThePage(t *testing.T) {
	p := followed(t, 60)
	p.knowledge.Leader = ""
	w := call(p.api(nil), "GET", "/", "")
	if w.Code != 200 || !strings.Contains(w.Body.String(), "<title>Berth</title>") {
		t.Errorf("%d %.200s", w.Code, w.Body)
	}
}

// A reading that is used for longer than it was meant to says so: what it calls certain is never said to be more recent than it is.
func TestAReadingThatIsUsedForLongerGrowsOlder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := followed(t, 0.5)
		place(t, p)
		p.observed.Idle = []wire.IdleView{{ID: firstReplica(t, p), IdleSeconds: -1, QuietSeconds: 7200, AsOfSeconds: 1, GPUs: 1}}
		s := newSummary(p, p)
		s.runs.Store(true) // and never comes to make another one
		s.read()
		for _, after := range []time.Duration{0, 900 * time.Millisecond, 2 * time.Second, 4 * time.Second} {
			time.Sleep(after)
			data, _ := s.answer()
			var doc wire.Status
			if err := json.Unmarshal(bytes.Join(data, nil), &doc); err != nil {
				t.Fatal(err)
			}
			truth := 1.5 + time.Since(s.reading.at).Seconds()
			if len(doc.IdleReplicas) != 1 || doc.IdleReplicas[0].AsOfSeconds < truth || doc.IdleReplicas[0].AsOfSeconds > truth+1.1 {
				t.Errorf("after %s: %+v, truly as of %.1f s ago", after, doc.IdleReplicas, truth)
			}
			if after == 4*time.Second && s.reading.at.Before(time.Now()) {
				t.Error("a reading that is too old to be used was used")
			}
		}
	})
}
