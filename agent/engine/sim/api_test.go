package sim

import (
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// bare serves an engine without Run, as an embedder may.
func bare(t *testing.T, cfg Config) (*Engine, func(method, path, body string, header ...string) (int, string)) {
	t.Helper()
	if cfg.Model == "" {
		cfg.Model = "org/m:tag"
	}
	e, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	s := httptest.NewServer(e)
	t.Cleanup(s.Close)
	return e, func(method, path, body string, header ...string) (int, string) {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), method, s.URL+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		for i := 0; i < len(header); i += 2 {
			req.Header.Set(header[i], header[i+1])
		}
		resp, err := s.Client().Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		b, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		return resp.StatusCode, string(b)
	}
}

func TestErrorsHaveVLLMsShape(t *testing.T) {
	_, call := bare(t, Config{MaxModelLen: 100})
	tests := []struct {
		method, path, body string
		status             int
		kind, message      string
	}{
		{"POST", "/v1/chat/completions", `{"model":"other","messages":[{"role":"user","content":"x"}]}`, 404, "NotFoundError", "The model `other` does not exist."},
		{"POST", "/v1/completions", `{"model":"other","prompt":"x"}`, 404, "NotFoundError", "other"},
		{"POST", "/v1/embeddings", `{"model":"other","input":"x"}`, 404, "NotFoundError", "other"},
		{"POST", "/v1/completions", `{`, 400, "BadRequestError", "not a valid request"},
		{"POST", "/v1/chat/completions", `{"model":"m","messages":"x"}`, 400, "BadRequestError", "messages cannot be a string"},
		{"POST", "/v1/completions", `{"prompt":{"a":1}}`, 400, "BadRequestError", "neither a string"},
		{"POST", "/v1/completions", `{"prompt":""}`, 400, "BadRequestError", "empty"},
		{"POST", "/v1/completions", `{"prompt":["a","b"]}`, 400, "BadRequestError", "one prompt"},
		{"POST", "/v1/completions", `{"prompt":[1,2]}`, 400, "BadRequestError", "vocabulary"},
		{"POST", "/v1/completions", `{"prompt":"x","n":2}`, 400, "BadRequestError", "n is 2"},
		{"POST", "/v1/completions", `{"prompt":"x","max_tokens":0}`, 400, "BadRequestError", "max_tokens"},
		{"POST", "/v1/completions", `{"prompt":"x","max_tokens":100}`, 400, "BadRequestError", "maximum context length is 100 tokens"},
		{"POST", "/v1/completions", fmt.Sprintf(`{"prompt":%q}`, prompt(1, 100)), 400, "BadRequestError", "maximum context length"},
		{"POST", "/v1/chat/completions", `{"messages":[]}`, 400, "BadRequestError", "messages"},
		{"POST", "/v1/chat/completions", `{"messages":[{"role":"user","content":7}]}`, 400, "BadRequestError", "content"},
		{"POST", "/v1/embeddings", `{"input":"x","encoding_format":"hex"}`, 400, "BadRequestError", "hex"},
		{"POST", "/v1/embeddings", `{"input":[]}`, 400, "BadRequestError", "input"},
		{"POST", "/v1/embeddings", `{"input":"x","dimensions":65}`, 400, "BadRequestError", "dimensions"},
		{"POST", "/tokenize", `{}`, 400, "BadRequestError", "prompt"},
		{"POST", "/detokenize", `{"tokens":[1]}`, 400, "BadRequestError", "vocabulary"},
		{"GET", "/v1/completions", ``, 405, "BadRequestError", "Not Allowed"},
		{"POST", "/sleep", ``, 404, "NotFoundError", "Not Found"},
	}
	for _, tt := range tests {
		status, body := call(tt.method, tt.path, tt.body)
		var got struct {
			Error struct {
				Message, Type string
				Code          int
			}
		}
		if err := json.Unmarshal([]byte(body), &got); err != nil {
			t.Errorf("%s %s: %q: %v", tt.path, tt.body, body, err)
		}
		if e := got.Error; status != tt.status || e.Code != tt.status || e.Type != tt.kind || !strings.Contains(e.Message, tt.message) {
			t.Errorf("%s %s: %d %s\nwant %d %s … %s", tt.path, tt.body, status, body, tt.status, tt.kind, tt.message)
		}
	}
}

func TestChat(t *testing.T) {
	e, call := bare(t, Config{ServedNames: []string{"big", "alias"}})
	const ask = `{"model":"alias","messages":[{"role":"user","content":[{"type":"text","text":"hi"}]}],"max_tokens":3,"stream":%t}`
	status, body := call("POST", "/v1/chat/completions", fmt.Sprintf(ask, false), "X-Request-Id", "req-1")
	var whole struct {
		Object, Model string
		Choices       []struct {
			Message struct{ Role, Content string }
			Finish  string `json:"finish_reason"`
		}
		Usage usage
	}
	if err := json.Unmarshal([]byte(body), &whole); err != nil || status != 200 || len(whole.Choices) != 1 {
		t.Fatalf("%d %s: %v", status, body, err)
	}
	c := whole.Choices[0]
	if whole.Object != "chat.completion" || whole.Model != "big" || c.Message.Role != "assistant" || c.Finish != "length" || whole.Usage.CompletionTokens != 3 {
		t.Errorf("answer %s", body)
	}
	_, body = call("POST", "/v1/chat/completions", fmt.Sprintf(ask, true))
	if !strings.HasPrefix(body, "data: {") || !strings.HasSuffix(body, "data: [DONE]\n\n") || strings.Contains(body, "usage") {
		t.Errorf("stream %s", body)
	}
	if got := contentOf(t, body); got != c.Message.Content {
		t.Errorf("streamed %q, whole %q", got, c.Message.Content)
	}
	first := e.Requests()[0]
	want := PromptHash(RenderChat([]Message{{"user", "hi"}}))
	if first.Seq != 1 || first.RequestID != "req-1" || first.Model != "alias" || first.PromptHash != want || first.Outcome != Served || first.Status != 200 {
		t.Errorf("recorded %+v", first)
	}
	if _, body := call("GET", "/sim/requests", ""); !strings.Contains(body, `"request_id":"req-1"`) {
		t.Errorf("/sim/requests: %s", body)
	}
}

// contentOf joins the deltas of a streamed chat.
func contentOf(t *testing.T, body string) string {
	t.Helper()
	var text strings.Builder
	for line := range strings.Lines(body) {
		data, ok := strings.CutPrefix(strings.TrimSpace(line), "data: {")
		if !ok {
			continue
		}
		var chunk struct {
			Choices []struct{ Delta struct{ Content string } }
		}
		if err := json.Unmarshal([]byte("{"+data), &chunk); err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		text.WriteString(chunk.Choices[0].Delta.Content)
	}
	return text.String()
}

func TestAnswersEndByThemselves(t *testing.T) {
	_, call := bare(t, Config{OutputTokens: 5})
	for body, want := range map[string]string{
		`{"prompt":"x"}`:                                  `"finish_reason":"stop"`,
		`{"prompt":"x","max_tokens":5}`:                   `"finish_reason":"stop"`,
		`{"prompt":"x","max_tokens":4}`:                   `"finish_reason":"length"`,
		`{"prompt":["x"],"max_tokens":10}`:                `"completion_tokens":5`,
		`{"prompt":[4294967416]}`:                         `"prompt_tokens":1`, // the token of "x"
		`{"prompt":"x","max_tokens":9,"ignore_eos":true}`: `"completion_tokens":9`,
	} {
		if status, got := call("POST", "/v1/completions", body); status != 200 || !strings.Contains(got, want) {
			t.Errorf("%s: %d %s, want %s", body, status, got, want)
		}
	}
}

func TestEmbeddings(t *testing.T) {
	_, call := bare(t, Config{})
	vectors := func(body string) (out [][]float32) {
		t.Helper()
		_, got := call("POST", "/v1/embeddings", body)
		var list struct {
			Data []struct {
				Index     int
				Embedding json.RawMessage
			}
		}
		if err := json.Unmarshal([]byte(got), &list); err != nil {
			t.Fatalf("%s: %v", got, err)
		}
		for _, d := range list.Data {
			out = append(out, vector(t, d.Embedding))
		}
		return out
	}
	two := vectors(`{"input":["x","yy"]}`)
	if len(two) != 2 || len(two[0]) != 64 || fmt.Sprint(two[0]) == fmt.Sprint(two[1]) {
		t.Fatalf("two inputs gave %v", two)
	}
	for _, body := range []string{`{"input":"x"}`, `{"input":[4294967416]}`, `{"input":[[4294967416]]}`, `{"input":"x","encoding_format":"base64"}`} {
		if got := vectors(body); len(got) != 1 || fmt.Sprint(got[0]) != fmt.Sprint(two[0]) {
			t.Errorf("%s gave %v, want the same as for \"x\"", body, got)
		}
	}
	short := vectors(`{"input":"x","dimensions":3}`)[0]
	for _, v := range [][]float32{two[0], two[1], short} {
		var sum float64
		for _, x := range v {
			sum += float64(x) * float64(x)
		}
		if math.Abs(sum-1) > 1e-6 {
			t.Errorf("|v|² = %v", sum)
		}
	}
	if len(short) != 3 {
		t.Errorf("%d dimensions, want 3", len(short))
	}
}

func vector(t *testing.T, raw json.RawMessage) []float32 {
	t.Helper()
	var v []float32
	if json.Unmarshal(raw, &v) == nil {
		return v
	}
	var s string
	if err := json.Unmarshal(raw, &s); err != nil {
		t.Fatal(err)
	}
	b, err := base64.StdEncoding.DecodeString(s)
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(b); i += 4 {
		v = append(v, math.Float32frombits(binary.LittleEndian.Uint32(b[i:])))
	}
	return v
}

func TestTokenizeRoutes(t *testing.T) {
	_, call := bare(t, Config{})
	_, body := call("POST", "/tokenize", `{"prompt":"Hello, world"}`)
	var got struct {
		Count  int
		Tokens []int64
	}
	if err := json.Unmarshal([]byte(body), &got); err != nil || got.Count != len(got.Tokens) || got.Count == 0 {
		t.Fatalf("%s: %v", body, err)
	}
	tokens, _ := json.Marshal(got.Tokens)
	if _, body = call("POST", "/detokenize", fmt.Sprintf(`{"tokens":%s}`, tokens)); body != `{"prompt":"Hello, world"}` {
		t.Errorf("back: %s", body)
	}
}

func TestKeyGuardsV1(t *testing.T) {
	_, call := bare(t, Config{APIKey: "secret"})
	for _, header := range [][]string{nil, {"Authorization", "Bearer wrong"}, {"Authorization", "secret"}} {
		if status, body := call("GET", "/v1/models", "", header...); status != 401 || strings.Contains(body, "secret") {
			t.Errorf("%q: %d %s", header, status, body)
		}
	}
	if status, body := call("GET", "/v1/models", "", "Authorization", "Bearer secret"); status != 200 || !strings.Contains(body, `"id":"org/m:tag"`) {
		t.Errorf("with the key: %d %s", status, body)
	}
	for path, want := range map[string]string{"/health": "", "/version": `{"version":"0.33.0+sim"}`, "/load": `{"server_load":0}`} {
		if status, body := call("GET", path, ""); status != 200 || body != want {
			t.Errorf("%s without a key: %d %q, want %q", path, status, body, want)
		}
	}
}

func TestRecordIsBounded(t *testing.T) {
	e, call := bare(t, Config{RecordLimit: 3})
	for range 8 {
		call("POST", "/v1/completions", `{"prompt":"x","max_tokens":1}`)
	}
	got := e.Requests()
	if len(got) != 3 || got[0].Seq != 6 || got[2].Seq != 8 {
		t.Errorf("kept %+v, want the last three", got)
	}
}
