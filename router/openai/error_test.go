package openai

import (
	"encoding/json"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

func TestNestBringsEveryEngineIntoOneShape(t *testing.T) {
	for _, c := range []struct {
		name, in, message, kind string
		code                    any
		status                  int
	}{
		{"vLLM flat", `{"object":"error","message":"too long","type":"BadRequestError","param":null,"code":400}`, "too long", "invalid_request_error", nil, 400},
		{"vLLM nested, number", `{"error":{"message":"no such","type":"NotFoundError","param":null,"code":404}}`, "no such", "invalid_request_error", nil, 404},
		{"llama.cpp", `{"error":{"code":503,"message":"Loading model","type":"unavailable_error"}}`, "Loading model", "unavailable_error", nil, 503},
		{"string code kept", `{"message":"long","type":"x_error","code":"context_length_exceeded"}`, "long", "x_error", "context_length_exceeded", 400},
		{"FastAPI", `{"detail":"Not Found"}`, "Not Found", "invalid_request_error", nil, 404},
		{"FastAPI list", `{"detail":[{"loc":["body"]}]}`, `[{"loc":["body"]}]`, "invalid_request_error", nil, 422},
		{"error is text", `{"error":"model not loaded"}`, "model not loaded", "server_error", nil, 500},
		{"HTML", "<html><h1>502 Bad Gateway</h1></html>", "the engine answered 502 Bad Gateway", "server_error", nil, 502},
		{"text", "Internal Server Error\n", "Internal Server Error", "server_error", nil, 500},
		{"nothing", "", "the engine answered 500 Internal Server Error", "server_error", nil, 500},
		{"array", "[1]", "[1]", "server_error", nil, 500},
		{"long text", strings.Repeat("é", 2000), strings.Repeat("é", 512), "server_error", nil, 500},
	} {
		out := Nest(c.status, Chat, []byte(c.in))
		var got struct {
			Error map[string]any `json:"error"`
		}
		if err := json.Unmarshal(out, &got); err != nil {
			t.Errorf("%s: %v in %s", c.name, err, out)
			continue
		}
		e := got.Error
		if len(e) != 4 || e["message"] != c.message || e["type"] != c.kind || e["code"] != c.code {
			t.Errorf("%s: %s", c.name, out)
		}
	}
}

func TestNestLeavesARightShapeAlone(t *testing.T) {
	right := []byte(`{"error":{"message":"a","type":"b","param":null,"code":"c","more":1}}`)
	if out := Nest(400, Chat, right); out != nil {
		t.Errorf("rewritten to %s", out)
	}
	anthropic := []byte(`{"type":"error","error":{"type":"overloaded_error","message":"a"}}`)
	if out := Nest(529, Messages, anthropic); out != nil {
		t.Errorf("rewritten to %s", out)
	}
	if out := Nest(529, Chat, anthropic); out == nil {
		t.Error("Anthropic's shape passed to a client of OpenAI's")
	}
}

func TestErrorOnTheWire(t *testing.T) {
	w := httptest.NewRecorder()
	(&Error{Status: 503, Message: "full", Code: "server_is_overloaded", RetryAfter: 1500 * time.Millisecond}).WriteTo(w)
	want := `{"error":{"message":"full","type":"service_unavailable_error","param":null,"code":"server_is_overloaded"}}`
	if w.Body.String() != want || w.Code != 503 {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	if h := w.Header(); h.Get("Retry-After") != "2" || h.Get("Retry-After-Ms") != "1500" {
		t.Errorf("headers %v", h)
	}
}

func TestEventOfEachDialect(t *testing.T) {
	e := &Error{Status: 502, Message: "gone"}
	for d, want := range map[Dialect]string{
		Chat:      "data: {\"error\":{\"message\":\"gone\",\"type\":\"server_error\",\"param\":null,\"code\":null}}\n\n",
		Responses: "event: error\ndata: {\"type\":\"error\",\"code\":null,\"message\":\"gone\",\"param\":null}\n\n",
		Messages:  "event: error\ndata: {\"type\":\"error\",\"error\":{\"message\":\"gone\",\"type\":\"server_error\",\"param\":null,\"code\":null}}\n\n",
	} {
		if got := string(e.Event(d)); got != want {
			t.Errorf("%d: %s", d, got)
		}
	}
}

func TestFormModel(t *testing.T) {
	part := func(head, body string) string {
		return "--b\r\nContent-Disposition: form-data; " + head + "\r\n\r\n" + body + "\r\n"
	}
	file := part(`name="file"; filename="a.wav"`, strings.Repeat("\x00", 10_000))
	decoy := part(`name="model"; filename="model"`, "decoy")
	for body, want := range map[string]string{
		file + decoy + part(`name="model"`, "whisper/Large:v3") + "--b--\r\n": "whisper/Large:v3",
		file + "--b--\r\n":                              "!no field",
		part(`name="model"`, "") + "--b--\r\n":          "!is empty",
		part(`name="model"`, strings.Repeat("x", 5000)): "!more than",
		"nothing":   "!cannot be read",
		file[:5000]: "!cannot be read",
	} {
		got, _, err := FormModel(strings.NewReader(body), "b")
		if text, bad := strings.CutPrefix(want, "!"); bad {
			if err == nil || !strings.Contains(err.Error(), text) {
				t.Errorf("%.40q: %v, want %s", body, err, text)
			}
		} else if got != want || err != nil {
			t.Errorf("%.40q: %q %v", body, got, err)
		}
	}
}
