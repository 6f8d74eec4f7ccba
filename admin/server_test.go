package admin

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/getkin/kin-openapi/openapi3"
	"go.uber.org/goleak"

	"berth/fleet"
	"berth/fleet/wire"
	"berth/fsm"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// peer is the least that the API needs: a real state machine of its own and a board that says what a test puts there.
type peer struct {
	machine   *fsm.Machine
	index     uint64
	knowledge Knowledge
	observed  wire.Observed
	fits      error
	proposed  []fsm.Meta

	alive, sure bool // of the registered life of any node
}

func newPeer(t *testing.T) *peer {
	t.Helper()
	p := &peer{machine: fsm.New(), knowledge: Knowledge{CaughtUp: true, Leader: "p1", LeaderHTTP: "leader", IsLeader: true}}
	p.do(t, fsm.ClusterCreate{ID: "c-1"})
	return p
}

func (p *peer) do(t *testing.T, cmd fsm.Command) {
	t.Helper()
	if out, err := p.Propose(context.Background(), fsm.Meta{At: 1}, cmd); err != nil || out.Err != nil {
		t.Fatalf("%s: %v %v", cmd.Kind(), err, out.Err)
	}
}

func (p *peer) ID() string                                { return "p1" }
func (p *peer) State() *fsm.State                         { return p.machine.State() }
func (p *peer) Knowledge() Knowledge                      { return p.knowledge }
func (p *peer) Verify(context.Context) error              { return nil }
func (p *peer) WaitApplied(context.Context, uint64) error { return nil }
func (p *peer) Propose(_ context.Context, m fsm.Meta, c fsm.Command) (fsm.Outcome, error) {
	data, err := fsm.Encode(m, c)
	if err != nil {
		return fsm.Outcome{}, err
	}
	p.proposed = append(p.proposed, m)
	p.index++
	return p.machine.Apply(p.index, data)
}

func (p *peer) Heartbeat(wire.Heartbeat) wire.HeartbeatAnswer {
	return wire.HeartbeatAnswer{Cluster: "c-1"}
}
func (p *peer) Answers(string) (alive, sure bool)             { return p.alive, p.sure }
func (p *peer) Relay(wire.Relay) (wire.RelayAnswer, error)    { return wire.RelayAnswer{}, nil }
func (p *peer) Report(wire.Report) (wire.ReportAnswer, error) { return wire.ReportAnswer{Term: 1}, nil }
func (p *peer) Observed() wire.Observed                       { return p.observed }
func (p *peer) Brief(quiet time.Duration) wire.Observed {
	o := p.observed
	o.Nodes, o.Idle = nil, slices.DeleteFunc(slices.Clone(o.Idle), func(r wire.IdleView) bool { return quiet < 0 || r.QuietSeconds < quiet.Seconds() })
	return o
}
func (p *peer) ObservedAge() time.Duration { return length(p.observed.AgeSeconds) }
func (p *peer) Refused() <-chan struct{}   { return nil }
func (p *peer) Events(since uint64) ([]wire.Event, <-chan struct{}) {
	if since > 0 {
		return nil, nil
	}
	return []wire.Event{{Seq: 1, Kind: "model", Text: "applied"}}, nil
}

func (p *peer) DryRun([]fleet.ModelSpec) (fleet.Plan, error) { return fleet.Plan{}, nil }
func (p *peer) Fits(fleet.ModelSpec) error                   { return p.fits }
func (p *peer) ExplainModel(name string) (fleet.Refusal, error) {
	return fleet.Refusal{Model: name}, nil
}
func (p *peer) ExplainNode(string) (string, error) { return "nothing", nil }
func (p *peer) Rollout(model string) (wire.RolloutView, bool) {
	return wire.RolloutView{Model: model, Generation: 2, State: "going"}, true
}
func (p *peer) Peers() []wire.PeerView                      { return []wire.PeerView{{ID: "p1"}} }
func (p *peer) AddPeer(context.Context, fleet.Server) error { return nil }
func (p *peer) RemovePeer(context.Context, string) error    { return nil }
func (p *peer) MovePeer(context.Context, string, string, bool) error {
	return nil
}
func (p *peer) PromotePeer(context.Context, string) error        { return nil }
func (p *peer) DemotePeer(context.Context, string) error         { return nil }
func (p *peer) TransferLeadership(context.Context, string) error { return nil }
func (p *peer) RestoreSnapshot(context.Context, io.Reader, bool) (wire.SnapshotInfo, error) {
	return wire.SnapshotInfo{}, nil
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func (p *peer) api(leader roundTrip) *Server {
	return New(Config{Core: p, Board: p, Members: p, Snapshots: p, Planner: p, Transport: leader, Version: "test", Log: slog.New(slog.DiscardHandler)})
}

func call(h http.Handler, method, path, body string, header ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, path, strings.NewReader(body))
	for i := 0; i+1 < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

func codeOf(t *testing.T, w *httptest.ResponseRecorder) fleet.Code {
	t.Helper()
	var body wire.ErrorBody
	if err := json.Unmarshal(w.Body.Bytes(), &body); err != nil {
		t.Fatalf("status %d is not the API's shape: %s", w.Code, w.Body)
	}
	if body.Error.Code.Status() != w.Code {
		t.Errorf("the code %s came with status %d", body.Error.Code, w.Code)
	}
	return body.Error.Code
}

func spec(name string) string {
	return fmt.Sprintf(`{"version":1,"kind":"model","name":%q,"engine":{"driver":"sim","weights":"w"},"placement":{"gpus_per_node":1}}`, name)
}

func TestModelNamesKeepSlashColonAndCase(t *testing.T) {
	p := newPeer(t)
	api := p.api(nil)
	const name = "org/Qwen-X:Q4_K_M"
	if w := call(api, "PUT", "/api/v1/models/org%2FQwen-X%3AQ4_K_M", spec(name)); w.Code != 200 {
		t.Fatalf("apply: %d %s", w.Code, w.Body)
	}
	for _, path := range []string{"/api/v1/models/org/Qwen-X:Q4_K_M", "/api/v1/models/org%2FQwen-X%3AQ4_K_M"} {
		w := call(api, "GET", path, "")
		var m wire.ModelView
		if err := json.Unmarshal(w.Body.Bytes(), &m); err != nil || m.Spec.Name != name {
			t.Errorf("%s: %d %s", path, w.Code, w.Body)
		}
	}
	for path, want := range map[string]fleet.Code{
		"/api/v1/models/org/qwen-x:q4_k_m":            fleet.NotFound,
		"/api/v1/models/..%2Fnodes":                   fleet.BadRequest,
		"/api/v1/models/../nodes":                     fleet.BadRequest,
		"/api/v1/models/" + strings.Repeat("x", 4096): fleet.BadRequest,
		"/api/v1/models/org%252FQwen-X":               fleet.BadRequest,
		"/api/v1/nonsense":                            fleet.NotFound,
		"/v1/chat/completions":                        fleet.NotFound,
	} {
		if w := call(api, "GET", path, ""); codeOf(t, w) != want {
			t.Errorf("%s: %s, want %s", path, w.Body, want)
		}
	}
	if w := call(api, "DELETE", "/api/v1/models/org/Qwen-X:Q4_K_M", ""); w.Code != 200 {
		t.Errorf("delete: %s", w.Body)
	}
}

func TestBadInputIsRefusedWithItsCodeAndChangesNothing(t *testing.T) {
	p := newPeer(t)
	api := p.api(nil)
	call(api, "PUT", "/api/v1/models/m", spec("m"))
	before := rowsOf(t, p.State())
	for _, c := range []struct {
		method, path, body string
		want               fleet.Code
	}{
		{"PUT", "/api/v1/models/m", `{"version":1,"gpus":1}`, fleet.UnknownField},
		{"PUT", "/api/v1/models/m", `{"version":"one"}`, fleet.BadRequest},
		{"PUT", "/api/v1/models/m", `{`, fleet.BadRequest},
		{"PUT", "/api/v1/models/m", ``, fleet.BadRequest},
		{"PUT", "/api/v1/models/m", spec("m") + spec("m"), fleet.BadRequest},
		{"PUT", "/api/v1/models/m", spec("other"), fleet.BadRequest},
		{"PUT", "/api/v1/models/m", strings.Replace(spec("m"), `"sim"`, `"none"`, 1), fleet.InvalidSpec},
		{"PUT", "/api/v1/models/m", strings.Repeat(" ", maxBody+1), fleet.TooLarge},
		{"PUT", "/api/v1/scale/m", `{"replicas":-1}`, fleet.BadRequest},
		{"PUT", "/api/v1/scale/m", `{}`, fleet.BadRequest},
		{"PUT", "/api/v1/scale/none", `{"replicas":1}`, fleet.NotFound},
		{"GET", "/api/v1/models?wait=-1", ``, fleet.BadRequest},
		{"GET", "/api/v1/models?index=7", ``, fleet.BadRequest},
		{"GET", "/api/v1/models?limit=0", ``, fleet.BadRequest},
		{"GET", "/api/v1/models?consistency=strong", ``, fleet.BadRequest},
		{"GET", "/api/v1/replicas?state=reddy", ``, fleet.BadRequest},
		{"POST", "/api/v1/nodes/none/cordon", ``, fleet.NotFound},
		{"POST", "/api/v1/peers/none/promote", ``, fleet.NotFound},
		{"POST", "/api/v1/replicas/r-1.1.1/stop", ``, fleet.NotFound},
		{"PUT", "/api/v1/freeze", `{"reason":""}`, fleet.BadRequest},
		{"PATCH", "/api/v1/settings", `{"node_grace":"1s"}`, fleet.BadRequest},
		{"PATCH", "/api/v1/settings", `{"node_graze":"60s"}`, fleet.UnknownField},
		{"PUT", "/api/v1/agents/n1", `{"name":"n2","id":"x","instance":1}`, fleet.BadRequest},
		{"PUT", "/api/v1/agents/n1", `{"name":"n1","id":"x","instance":1,"cluster":"other"}`, fleet.WrongCluster},
	} {
		if w := call(api, c.method, c.path, c.body); codeOf(t, w) != c.want {
			t.Errorf("%s %s %.40s: %s, want %s", c.method, c.path, c.body, w.Body, c.want)
		}
	}
	if rowsOf(t, p.State()) != before {
		t.Error("something was changed by a refused request")
	}
}

// rowsOf is everything in a state but the memory of answered requests, which keeps refusals too.
func rowsOf(t *testing.T, s *fsm.State) string {
	t.Helper()
	return mustJSON(t, []any{
		s.Cluster(), s.Settings(), s.Freeze(), slices.Collect(s.Models()), slices.Collect(s.Nodes()), slices.Collect(s.Replicas()), slices.Collect(s.Servers()),
	})
}

func TestAnUnplaceableModelIsRefusedUnlessAskedFor(t *testing.T) {
	p := newPeer(t)
	p.fits = fleet.Errorf(fleet.Unplaceable, "no node has 9 cards")
	api := p.api(nil)
	if w := call(api, "PUT", "/api/v1/models/m", spec("m")); codeOf(t, w) != fleet.Unplaceable {
		t.Errorf("got %s", w.Body)
	}
	if w := call(api, "PUT", "/api/v1/models/m?allow_unplaceable=true", spec("m")); w.Code != 200 {
		t.Errorf("got %s", w.Body)
	}
}

func TestARepeatedWriteGetsItsFirstAnswer(t *testing.T) {
	api := newPeer(t).api(nil)
	first := call(api, "PUT", "/api/v1/models/m", spec("m"), wire.HeaderRequestID, "again")
	second := call(api, "PUT", "/api/v1/models/m", spec("m"), wire.HeaderRequestID, "again")
	if first.Code != 200 || first.Body.String() != second.Body.String() || first.Header().Get(wire.HeaderRequestID) != "again" {
		t.Errorf("first %s, then %s", first.Body, second.Body)
	}
	if w := call(api, "PUT", "/api/v1/models/n", spec("n"), wire.HeaderRequestID, "again"); codeOf(t, w) != fleet.Conflict {
		t.Errorf("one id with two bodies: %s", w.Body)
	}
}

func TestAFollowerForwardsOnceAndSaysWhoAsked(t *testing.T) {
	p := newPeer(t)
	p.knowledge.IsLeader = false
	var seen *http.Request
	var body string
	api := p.api(func(r *http.Request) (*http.Response, error) {
		data, _ := io.ReadAll(r.Body)
		seen, body = r, string(data)
		return &http.Response{StatusCode: 200, Header: http.Header{wire.HeaderIndex: {"1.77"}}, Body: io.NopCloser(strings.NewReader("{}"))}, nil
	})
	w := call(api, "PUT", "/api/v1/models/a%2Fb", spec("a/b"), "User-Agent", "berthctl/1")
	if w.Code != 200 || seen.URL.EscapedPath() != "/api/v1/models/a%2Fb" || seen.URL.Host != "leader" || body != spec("a/b") {
		t.Fatalf("forwarded %v with %q: %d %s", seen.URL, body, w.Code, w.Body)
	}
	if seen.Header.Get(wire.HeaderForwarded) != "p1" || seen.Header.Get(headerCaller) != "berthctl/1" || w.Header().Get(wire.HeaderIndex) != "1.77" {
		t.Errorf("headers there %v, back %v", seen.Header, w.Header())
	}
	seen = nil
	if w := call(api, "PUT", "/api/v1/models/a", spec("a"), wire.HeaderForwarded, "p2"); codeOf(t, w) != fleet.NoLeader || seen != nil {
		t.Errorf("a forwarded request was forwarded again: %s", w.Body)
	}
}

func TestABrokenForwardIsUnknownForAWriteOnly(t *testing.T) {
	p := newPeer(t)
	p.knowledge.IsLeader = false
	api := p.api(func(*http.Request) (*http.Response, error) { return nil, errors.New("broken pipe") })
	if w := call(api, "PUT", "/api/v1/models/a", spec("a")); codeOf(t, w) != fleet.OutcomeUnknown {
		t.Errorf("write: %s", w.Body)
	}
	if w := call(api, "GET", "/api/v1/models", ""); codeOf(t, w) != fleet.NoLeader {
		t.Errorf("read: %s", w.Body)
	}
}

func TestWithoutALeaderStatusAnswersAndModelsOnlyWhenAskedStale(t *testing.T) {
	p := newPeer(t)
	p.knowledge = Knowledge{CaughtUp: true, Age: -1}
	api := p.api(nil)
	if w := call(api, "GET", "/api/v1/status", ""); w.Code != 200 || w.Header().Get(wire.HeaderKnowledgeAge) != "-1" {
		t.Errorf("status: %d %v", w.Code, w.Header())
	}
	if w := call(api, "GET", "/api/v1/models", ""); codeOf(t, w) != fleet.NoLeader || w.Header().Get("Retry-After") == "" {
		t.Errorf("models: %s", w.Body)
	}
	if w := call(api, "GET", "/api/v1/models?consistency=stale", ""); w.Code != 200 {
		t.Errorf("stale models: %s", w.Body)
	}
	if w := call(api, "GET", "/leaderz", ""); codeOf(t, w) != fleet.NotReady {
		t.Errorf("leaderz: %s", w.Body)
	}
}

func TestAPeerThatHasNotCaughtUpShowsNoTable(t *testing.T) {
	p := newPeer(t)
	p.knowledge.CaughtUp = false
	api := p.api(nil)
	for _, path := range []string{"/api/v1/table", "/api/v1/agents/n1/orders", "/api/v1/nodes", "/api/v1/status"} {
		if w := call(api, "GET", path, ""); codeOf(t, w) != fleet.NotReady {
			t.Errorf("%s: %s", path, w.Body)
		}
	}
	var s wire.Status
	w := call(api, "GET", "/api/v1/status?consistency=stale", "")
	if err := json.Unmarshal(w.Body.Bytes(), &s); err != nil || s.CaughtUp {
		t.Errorf("stale status: %s", w.Body)
	}
}

func TestABlockingReadWakesOnChangeAndIsNeverOlderThanAsked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPeer(t)
		api := p.api(nil)
		index := p.State().Index()
		answered := make(chan *httptest.ResponseRecorder)
		go func() { answered <- call(api, "GET", "/api/v1/table?wait=30s&index="+index.String(), "") }()
		synctest.Wait()
		call(api, "PUT", "/api/v1/models/m", spec("m"))
		var tab wire.Table
		if w := <-answered; json.Unmarshal(w.Body.Bytes(), &tab) != nil || len(tab.Models) != 1 || !index.Before(tab.Index) {
			t.Errorf("woken with %s", w.Body)
		}
		start := time.Now()
		w := call(api, "GET", "/api/v1/table?wait=10s&index="+tab.Index.String(), "")
		if d := time.Since(start); w.Code != 200 || d < 10*time.Second || d > 11*time.Second {
			t.Errorf("unchanged: %d after %s", w.Code, d)
		}
		w = call(api, "GET", "/api/v1/table?wait=2s&index=1.900", "")
		if codeOf(t, w) != fleet.NotReady || !strings.Contains(w.Body.String(), "behind") {
			t.Errorf("asked for the future: %s", w.Body)
		}
		start = time.Now()
		if w = call(api, "GET", "/api/v1/table?wait=30s&index=9.1", ""); w.Code != 200 || time.Since(start) != 0 {
			t.Errorf("an index of another epoch: %d after %s", w.Code, time.Since(start))
		}
	})
}

func TestReplicasAreFoundByTheAliasOfTheirModel(t *testing.T) {
	p := newPeer(t)
	p.do(t, fsm.NodeRegister{Registration: wire.Registration{Version: 1, Name: "n1", ID: "id", Instance: 1, Address: "192.0.2.1:7310",
		Inventory: fleet.Inventory{GPUs: []fleet.GPU{{UUID: "g", Class: "c", Memory: fleet.GiB, Health: fleet.Healthy}}}, Engines: []fleet.EngineOffer{{Driver: "sim", Hub: true}}}})
	api := p.api(nil)
	call(api, "PUT", "/api/v1/models/m", strings.Replace(spec("m"), `"engine"`, `"aliases":["short"],"engine"`, 1))
	p.do(t, fsm.PlanApply{Plan: fleet.Plan{Items: []fleet.PlanItem{{Place: &fleet.PlaceItem{Model: "m", Generation: 1, Shards: []fleet.Shard{{Node: "n1", Claims: []fleet.Claim{{GPU: "g"}}}}}}}}})
	for query, want := range map[string]int{"": 1, "?model=m": 1, "?model=short": 1, "?model=other": 0, "?state=starting": 1, "?state=ready": 0} {
		var rows struct{ Items []wire.ReplicaView }
		if w := call(api, "GET", "/api/v1/replicas"+query, ""); json.Unmarshal(w.Body.Bytes(), &rows) != nil || len(rows.Items) != want {
			t.Errorf("%q: %s, want %d rows", query, w.Body, want)
		}
	}
}

func TestTheKeyOfADoorIsInTheTableAlone(t *testing.T) {
	p := newPeer(t)
	p.do(t, fsm.NodeRegister{Registration: wire.Registration{Version: 1, Name: "n1", ID: "id", Instance: 1, Address: "192.0.2.1:7310",
		Inventory: fleet.Inventory{GPUs: []fleet.GPU{{UUID: "g", Class: "c", Memory: fleet.GiB, Health: fleet.Healthy}}}, Engines: []fleet.EngineOffer{{Driver: "sim", Hub: true}}}})
	api := p.api(nil)
	call(api, "PUT", "/api/v1/models/m", spec("m"))
	m, _ := p.State().Model("m")
	p.do(t, fsm.PlanApply{Plan: fleet.Plan{Items: []fleet.PlanItem{{Place: &fleet.PlaceItem{Model: "m", Generation: m.Generation, Shards: []fleet.Shard{{Node: "n1", Claims: []fleet.Claim{{GPU: "g"}}}}}}}}})
	var r *fleet.Replica
	for r = range p.State().Replicas() {
	}
	if r == nil {
		t.Fatal("nothing was placed")
	}
	for _, to := range []string{wire.BecameStarting, wire.BecameReady} {
		p.do(t, fsm.ReplicaTransitions{Node: "n1", Instance: 1, Items: []wire.Transition{{Replica: r.ID, Order: r.Order, Start: r.Start, To: to, Door: &fleet.Door{Address: "192.0.2.1:20000", Key: "CANARY"}}}})
	}
	if w := call(api, "GET", "/api/v1/table", ""); !strings.Contains(w.Body.String(), "CANARY") {
		t.Errorf("the table lacks the key: %s", w.Body)
	}
	for _, path := range []string{"replicas", "replicas/" + r.ID, "models/m", "nodes", "status", "idle", "events"} {
		if w := call(api, "GET", "/api/v1/"+path, ""); w.Code != 200 || strings.Contains(w.Body.String(), "CANARY") {
			t.Errorf("%s: %d %s", path, w.Code, w.Body)
		}
	}
}

func TestEveryRouteIsDescribedAndTheDocumentIsValid(t *testing.T) {
	w := call(newPeer(t).api(nil), "GET", "/api/v1/openapi.json", "")
	doc, err := openapi3.NewLoader().LoadFromData(w.Body.Bytes())
	if err != nil {
		t.Fatal(err)
	}
	if err := doc.Validate(context.Background()); err != nil {
		t.Error(err)
	}
	ids := map[string]bool{}
	for _, r := range routes() {
		path := r.path
		if !strings.HasPrefix(path, "/") {
			path = wire.Prefix + "/" + path
		}
		item := doc.Paths.Value(path)
		if item == nil || item.GetOperation(r.method) == nil {
			t.Errorf("%s %s is not described", r.method, path)
			continue
		}
		op := item.GetOperation(r.method)
		if op.Summary == "" || ids[op.OperationID] {
			t.Errorf("%s %s: summary %q, id %q", r.method, path, op.Summary, op.OperationID)
		}
		ids[op.OperationID] = true
	}
}

func TestAPanicIsAnErrorAndNotABrokenConnection(t *testing.T) {
	p := newPeer(t)
	api := p.api(nil)
	var once atomic.Bool
	api.router.HandleFunc("/boom", func(http.ResponseWriter, *http.Request) { once.Store(true); panic("boom") })
	if w := call(api, "GET", "/boom", ""); !once.Load() || codeOf(t, w) != fleet.Internal {
		t.Errorf("got %d %s", w.Code, w.Body)
	}
}

func TestPagesCoverEveryRowOnce(t *testing.T) {
	p := newPeer(t)
	api := p.api(nil)
	for i := range 7 {
		name := fmt.Sprintf("m%d", i)
		call(api, "PUT", "/api/v1/models/"+name, spec(name))
	}
	var names []string
	for next := ""; ; {
		var list wire.List[wire.ModelView]
		w := call(api, "GET", "/api/v1/models?limit=3&next="+next, "")
		if err := json.Unmarshal(w.Body.Bytes(), &list); err != nil {
			t.Fatal(err)
		}
		for _, m := range list.Items {
			names = append(names, m.Spec.Name)
		}
		if next = list.Next; next == "" {
			break
		}
	}
	if strings.Join(names, " ") != "m0 m1 m2 m3 m4 m5 m6" {
		t.Errorf("got %v", names)
	}
}
