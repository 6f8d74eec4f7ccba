package router

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"berth/agent/engine/sim"
	"berth/fleet"
	"berth/fleet/wire"
)

func readAll(t *testing.T, resp *http.Response) string {
	t.Helper()
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Error(err)
	}
	return string(body)
}

// nodeFailure is an error as OpenAI's client for Node told it.
type nodeFailure struct {
	Kind, Code, Type, Param, RequestID, Message string
	Status                                      int
}

// nodeSaid is what testdata/openai-node/check.mjs prints.
type nodeSaid struct {
	Chat, ChatRequestID string
	Stream              struct {
		Text   string
		Chunks int
	}
	Tools                                       struct{ Name, Arguments string }
	Embeddings                                  []int
	Models                                      []string
	Model                                       string
	Unknown, Flat, DiesBefore, DiesBeforeStream *nodeFailure
	DiesAfter, Retried                          *nodeFailure
	RetriedAfter                                int
}

// TestOfficialClientForNode runs OpenAI's npm package against a router on loopback.
func TestOfficialClientForNode(t *testing.T) {
	if _, err := exec.LookPath("node"); err != nil {
		t.Skip("needs node: OpenAI's client for it is run against the router")
	}
	if _, err := os.Stat("testdata/openai-node/node_modules/openai"); err != nil {
		t.Skip("needs npm: make deps installs OpenAI's client for Node")
	}
	cmd := exec.CommandContext(t.Context(), "node", "check.mjs")
	cmd.Dir, cmd.Env = "testdata/openai-node", append(os.Environ(), "BASE="+realRouter(t, nodeModels(t)...))
	cmd.Stderr = t.Output()
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("check.mjs: %v", err)
	}
	var said nodeSaid
	if err := json.Unmarshal(out, &said); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	said.check(t)
}

func (s nodeSaid) check(t *testing.T) {
	if s.Chat == "" || s.Stream.Text != s.Chat || s.Stream.Chunks < 10 || !strings.HasPrefix(s.ChatRequestID, "req_") {
		t.Errorf("chat %q (%s), stream %+v", s.Chat, s.ChatRequestID, s.Stream)
	}
	if s.Tools.Name != "weather" || s.Tools.Arguments != `{"city":"Ulm"}` || !slices.Equal(s.Embeddings, []int{64, 64}) {
		t.Errorf("tools %+v, embeddings %v", s.Tools, s.Embeddings)
	}
	if !slices.Contains(s.Models, "acme/Qwen-X:Q4") || !slices.Contains(s.Models, "m") || s.Model != "acme/Qwen-X:Q4" {
		t.Errorf("models %v, %q", s.Models, s.Model)
	}
	if f := s.Unknown; f == nil || f.Kind != "NotFoundError" || f.Code != "model_not_found" || f.Param != "model" || f.RequestID == "" {
		t.Errorf("unknown model: %+v", f)
	}
	if f := s.Flat; f == nil || f.Kind != "BadRequestError" || f.Type != "invalid_request_error" || !strings.Contains(f.Message, "too long") {
		t.Errorf("flat error: %+v", f)
	}
	if s.DiesBefore != nil || s.DiesBeforeStream != nil {
		t.Errorf("death before the first byte: %+v %+v", s.DiesBefore, s.DiesBeforeStream)
	}
	if f := s.DiesAfter; f == nil || f.Kind != "APIError" || f.Code != "replica_failed" {
		t.Errorf("death after the first byte: %+v", f)
	}
	if s.Retried != nil || s.RetriedAfter < 900 {
		t.Errorf("the client's own retry: %+v after %d ms", s.Retried, s.RetriedAfter)
	}
}

// nodeModels are the models that check.mjs asks for.
func nodeModels(t *testing.T) []wire.TableModel {
	engine := func(id string, h http.HandlerFunc) wire.Endpoint {
		srv := httptest.NewServer(h)
		t.Cleanup(srv.Close)
		return wire.Endpoint{Replica: id, Address: srv.Listener.Addr().String(), Key: "k", State: fleet.Ready, Generation: 1}
	}
	simulated := func(name string, change func(*sim.Config)) http.HandlerFunc {
		c := sim.Config{Model: name, OutputTokens: 10}
		if change != nil {
			change(&c)
		}
		e, err := sim.New(c)
		if err != nil {
			t.Fatal(err)
		}
		return e.ServeHTTP
	}
	m := model("m", engine("m", simulated("m", nil)))
	m.Aliases = []string{"acme/Qwen-X:Q4"}
	tools := func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if !strings.Contains(string(body), `"tools":[{"type":"function","function":{"name":"weather"`) {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprint(w, `{"id":"x","object":"chat.completion","choices":[{"index":0,"finish_reason":"tool_calls","message":{"role":"assistant","content":null,`+
			`"tool_calls":[{"id":"c1","type":"function","function":{"name":"weather","arguments":"{\"city\":\"Ulm\"}"}}]}}]}`)
	}
	dying := func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if strings.Contains(string(body), `"stream":true`) { // its headers come, as vLLM's do
			w.Header().Set("Content-Type", "text/event-stream")
			w.(http.Flusher).Flush()
		}
		panic(http.ErrAbortHandler)
	}
	dies := simulated("dies-after", func(c *sim.Config) { c.Fault.Stream = &sim.StreamFault{After: 3, How: "reset"} })
	var calls atomic.Int64
	up := simulated("once-down", nil)
	return []wire.TableModel{m, model("tools", engine("tools", tools)),
		model("flat", engine("flat", status(400, `{"object":"error","message":"the prompt is too long","type":"BadRequestError","code":400}`))),
		model("dies-before", engine("d1", dying), engine("d2", simulated("dies-before", nil))),
		model("dies-after", engine("d3", dies)),
		model("once-down", engine("o", func(w http.ResponseWriter, r *http.Request) {
			if calls.Add(1) == 1 {
				reset(w, r)
			}
			up(w, r)
		}))}
}

// realRouter runs a router on loopback and returns its base URL.
func realRouter(t *testing.T, rows ...wire.TableModel) string {
	t.Helper()
	p := newPeers()
	p.set(rows...)
	r, err := New(Config{Name: "r1", DataDir: t.TempDir(), Bind: "127.0.0.1:0", Ops: "127.0.0.1:0", Source: p, Sink: p})
	if err != nil {
		t.Fatal(err)
	}
	if err := r.tables.take(p.table); err != nil { // as it would from a peer, but before anyone asks
		t.Fatal(err)
	}
	front := httptest.NewServer(r.Handler())
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	ended := make(chan error)
	go func() { ended <- r.Run(ctx) }()
	t.Cleanup(func() {
		front.Close()
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return front.URL
}
