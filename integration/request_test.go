package integration

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"berth/demo/stage"
	"berth/fleet/wire"
)

const simModel = `version: 1
kind: model
name: demo/small
engine: {driver: sim, weights: demo/small}
placement: {gpus_per_node: %s, classes: [h100-sxm-80gb]}
replicas: {min: 1, max: 1}
drain: {deadline: 5s, minimum: 1s}
`

func apply(t *testing.T, s *stage.Stage, spec string, more ...string) stage.Answer {
	t.Helper()
	a, err := s.Ctl(t.Context(), spec, append([]string{"model", "apply", "-f", "-"}, more...)...)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func models(t *testing.T, s *stage.Stage) []wire.ModelView {
	t.Helper()
	all, err := stage.JSON[[]wire.ModelView](t.Context(), s, "models")
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// What operators write wrong is refused whole, with the place and what would be right.
func TestBadModels(t *testing.T) {
	s := cluster(t, stage.Config{Peers: 1, Nodes: []stage.Node{{Name: "gpu-01", Fabric: "fa", GPUs: 8}}})
	until(t, 20*time.Second, func(ctx context.Context) error {
		nodes, err := stage.JSON[[]wire.NodeView](ctx, s, "nodes")
		if err == nil && (len(nodes) != 1 || nodes[0].State != "ready") {
			err = fmt.Errorf("nodes: %+v", nodes)
		}
		return err
	})
	for name, c := range map[string]struct {
		spec string
		say  []string
	}{
		"wrong type":         {fmt.Sprintf(simModel, "eight"), []string{":5:", "gpus_per_node", "eight"}},
		"unknown field":      {fmt.Sprintf(simModel, "1") + "replica: 3\n", []string{":8:", "replica", "replicas"}},
		"gpus":               {strings.Replace(fmt.Sprintf(simModel, "1"), "gpus_per_node", "gpus", 1), []string{"gpus", "gpus_per_node"}},
		"no node can ever":   {fmt.Sprintf(simModel, "16"), []string{"demo/small", "16", "8"}},
		"not a model at all": {"hello\n", []string{":1:"}},
	} {
		t.Run(name, func(t *testing.T) {
			a := apply(t, s, c.spec)
			if a.Code != 1 {
				t.Errorf("ended with %d, want 1", a.Code)
			}
			for _, want := range c.say {
				if !strings.Contains(a.Err, want) {
					t.Errorf("said %q, want %q in it", a.Err, want)
				}
			}
			if all := models(t, s); len(all) != 0 {
				t.Errorf("the model is there all the same: %+v", all)
			}
		})
	}
	t.Run("one of two", func(t *testing.T) { oneOfTwo(t, s) })
	if a := apply(t, s, fmt.Sprintf(simModel, "16"), "--allow-unplaceable"); a.Code != 2 || len(models(t, s)) != 1 {
		t.Errorf("--allow-unplaceable ended with %d: %s", a.Code, a.Err)
	}
}

// oneOfTwo applies a folder in which one file is wrong: nothing of it is applied.
func oneOfTwo(t *testing.T, s *stage.Stage) {
	dir := t.TempDir()
	for name, cards := range map[string]string{"a.yaml": "1", "b.yaml": "eight"} {
		if err := os.WriteFile(filepath.Join(dir, name), fmt.Appendf(nil, simModel, cards), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	a, err := s.Ctl(t.Context(), "", "model", "apply", "-f", dir)
	if err != nil || a.Code != 1 || !strings.Contains(a.Err, "b.yaml:5") {
		t.Errorf("ended with %d, %v: %s", a.Code, err, a.Err)
	}
	if all := models(t, s); len(all) != 0 {
		t.Errorf("half of the folder was applied: %+v", all)
	}
}

// While no node has registered, a model that may find its place later is accepted and listed as unplaceable.
func TestModelBeforeTheFirstNode(t *testing.T) {
	s := cluster(t, onePeer())
	leads(t, s)
	if a := apply(t, s, fmt.Sprintf(simModel, "16")); a.Code != 2 || !strings.Contains(a.Err, "no nodes") {
		t.Errorf("ended with %d: %s; want 2 and why it is not placed", a.Code, a.Err)
	}
	until(t, 10*time.Second, func(ctx context.Context) error {
		st, err := stage.JSON[wire.Status](ctx, s, "status")
		if err == nil && (len(st.Unplaceable) != 1 || st.Unplaceable[0].Model != "demo/small" || st.Unplaceable[0].Reason == "") {
			err = fmt.Errorf("unplaceable: %+v", st.Unplaceable)
		}
		return err
	})
}

// overLimit is more than a router takes: 64 MiB.
const overLimit = 65 << 20

// What clients send wrong gets OpenAI's error shape.
func TestBadRequests(t *testing.T) {
	s := cluster(t, stage.Config{Peers: 1, Routers: 1})
	leads(t, s)
	apply(t, s, fmt.Sprintf(simModel, "1"))
	url := s.Routers[0].URL()
	until(t, 20*time.Second, func(ctx context.Context) error { // until the router's table has the model
		if got := get(t, url+"/v1/models"); !strings.Contains(got.text, "demo/small") {
			return fmt.Errorf("%+v", got)
		}
		return nil
	})
	for name, c := range map[string]struct {
		path, body string
		status     int
		code       string
		say        string
	}{
		"unknown model": {"/v1/chat/completions", `{"model":"nobody/has","messages":[]}`, 404, "model_not_found", "nobody/has"},
		"not JSON":      {"/v1/chat/completions", `{"model":`, 400, "", "JSON"},
		"no model":      {"/v1/chat/completions", `{"messages":[]}`, 400, "", "model"},
		"unknown route": {"/v1/files", `{}`, 404, "", "/v1/files"},
	} {
		t.Run(name, func(t *testing.T) { post(t, url+c.path, strings.NewReader(c.body)).check(t, c.status, c.code, c.say) })
	}
	t.Run("over the limit", func(t *testing.T) {
		body := io.MultiReader(strings.NewReader(`{"prompt":"`), bytes.NewReader(bytes.Repeat([]byte("a"), overLimit)))
		post(t, url+"/v1/completions", body).check(t, http.StatusRequestEntityTooLarge, "request_too_large", "64")
	})
	t.Run("a peer is no router", func(t *testing.T) {
		until(t, 10*time.Second, func(context.Context) error { // until the router's first report
			got := post(t, s.Peers[0].URL()+"/v1/chat/completions", strings.NewReader(`{}`))
			if got.status != http.StatusNotFound || !strings.Contains(got.text, s.Routers[0].Addr) {
				return fmt.Errorf("%+v, want 404 and the router's address", got)
			}
			return nil
		})
	})
}

type answer struct {
	status int
	text   string
}

func get(t *testing.T, url string) answer { return ask(t, http.MethodGet, url, nil) }

func post(t *testing.T, url string, body io.Reader) answer { return ask(t, http.MethodPost, url, body) }

func ask(t *testing.T, method, url string, body io.Reader) answer {
	t.Helper()
	transport := &http.Transport{}
	defer transport.CloseIdleConnections()
	req, err := http.NewRequestWithContext(t.Context(), method, url, body)
	if err != nil {
		t.Fatal(err)
	}
	res, err := (&http.Client{Transport: transport}).Do(req)
	if err != nil {
		return answer{text: err.Error()}
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer{res.StatusCode, string(text)}
}

func (a answer) check(t *testing.T, status int, code, say string) {
	t.Helper()
	var shape struct {
		Error *struct {
			Message, Type string
			Code          any
		}
	}
	if err := json.Unmarshal([]byte(a.text), &shape); err != nil || shape.Error == nil || shape.Error.Type == "" {
		t.Fatalf("status %d, not OpenAI's error shape: %s", a.status, a.text)
	}
	if a.status != status || !strings.Contains(shape.Error.Message, say) || code != "" && shape.Error.Code != code {
		t.Errorf("status %d, %+v; want %d, code %q and %q in the message", a.status, *shape.Error, status, code, say)
	}
}
