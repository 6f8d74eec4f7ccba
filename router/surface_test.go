package router

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"mime/multipart"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"berth/fleet"
)

// TestModelNames: field case C54.
func TestModelNames(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, nil)
		var got atomic.Value
		row := model("acme/Qwen-X:Q4_K_M", c.engine("a", "10.0.0.1", func(w http.ResponseWriter, r *http.Request) {
			body, _ := io.ReadAll(r.Body)
			got.Store(string(body))
			ok("a")(w, r)
		}))
		row.Aliases = []string{"qwen"}
		c.set(row, model("at/zero"))
		for _, path := range []string{"acme/Qwen-X:Q4_K_M", "acme%2FQwen-X%3AQ4_K_M", "acme/Qwen-X%3aQ4_K_M"} {
			a := c.get(base + "/v1/models/" + path)
			if want := `{"id":"acme/Qwen-X:Q4_K_M","object":"model","created":1700000000,"owned_by":"berth","root":"acme/Qwen-X:Q4_K_M"}`; a.status != 200 || strings.TrimSpace(a.body) != want {
				t.Errorf("%s: %d %s", path, a.status, a.body)
			}
		}
		if a := c.get(base + "/v1/models/qwen"); a.status != 200 || !strings.Contains(a.body, `"root":"acme/Qwen-X:Q4_K_M"`) {
			t.Errorf("alias: %d %s", a.status, a.body)
		}
		for _, path := range []string{"acme/qwen-x:q4_k_m", "..%2Fadmin", "../admin", "acme%252FQwen-X", strings.Repeat("x", 4096), "/etc", "acme/Qwen-X:Q4_K_M/"} {
			a := c.get(base + "/v1/models/" + path)
			if _, _, code := a.apiError(t); a.status != 404 || code != "model_not_found" {
				t.Errorf("%.30s: %d %s", path, a.status, a.body)
			}
		}
		for _, name := range []string{"acme/Qwen-X:Q4_K_M", "qwen"} {
			body := fmt.Sprintf(`{"model":%q,"messages":[]}`, name)
			if a := c.post(chatPath, body); a.status != 200 || got.Load() != body {
				t.Errorf("%s: %d %s, the engine got %s", name, a.status, a.body, got.Load())
			}
		}
		a := c.post(chatPath, `{"model":"acme/qwen-x:q4_k_m"}`)
		if _, kind, code := a.apiError(t); a.status != 404 || code != "model_not_found" || kind != "invalid_request_error" || !strings.Contains(a.body, `"param":"model"`) {
			t.Errorf("%d %s", a.status, a.body)
		}
		var list struct {
			Object string
			Data   []struct{ ID string }
		}
		a = c.get(base + "/v1/models")
		if err := json.Unmarshal([]byte(a.body), &list); err != nil || list.Object != "list" || fmt.Sprint(list.Data) != "[{acme/Qwen-X:Q4_K_M} {at/zero} {qwen}]" {
			t.Errorf("%v %s", err, a.body)
		}
	})
}

func TestRoutes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, nil)
		var path atomic.Value
		c.set(model("m", c.engine("a", "10.0.0.1", func(w http.ResponseWriter, r *http.Request) {
			path.Store(r.URL.RequestURI())
			ok("a")(w, r)
		})))
		for p, rt := range routes() {
			if rt.form {
				continue
			}
			if a := c.post(p+"?x=%2F1", chatBody); a.status != 200 || path.Load() != p+"?x=%2F1" {
				t.Errorf("%s: %d %s at %s", p, a.status, a.body, path.Load())
			}
		}
		path.Store("")
		for _, p := range []string{"/", "/sleep", "/v1/load_lora_adapter", "/reset_prefix_cache", "/collective_rpc", "/v1/files", "/v1/chat/completions/", "//v1/completions",
			"/v1/responses/resp_1", "/api/v1/status", "/v1/chat%2Fcompletions/x"} {
			a := c.post(p, chatBody)
			if message, _, _ := a.apiError(t); a.status != 404 || path.Load() != "" {
				t.Errorf("%s: %d %s, at the engine %v", p, a.status, message, path.Load())
			}
		}
		if message, _, _ := c.get(base + "/v1/responses/resp_1").apiError(t); !strings.Contains(message, "stored responses are not kept") {
			t.Errorf("%s", message)
		}
		a := c.get(base + chatPath)
		if _, _, code := a.apiError(t); a.status != 405 || code != "method_not_allowed" || a.header.Get("Allow") != "POST" {
			t.Errorf("%d %s", a.status, a.body)
		}
	})
}

func TestFormsNameTheirModelInAField(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, nil)
		var got atomic.Value
		c.set(model("org/whisper:v3", c.engine("a", "10.0.0.1", func(w http.ResponseWriter, r *http.Request) {
			body, _ := io.ReadAll(r.Body)
			got.Store(string(body))
			ok("a")(w, r)
		})))
		for _, size := range []int{100, 3 << 20} {
			var body bytes.Buffer
			form := multipart.NewWriter(&body)
			file, _ := form.CreateFormFile("file", "a.wav")
			_, _ = file.Write(bytes.Repeat([]byte{7}, size))
			_ = form.WriteField("model", "org/whisper:v3")
			_ = form.WriteField("language", "en")
			form.Close()
			sent := body.String()
			req, _ := http.NewRequestWithContext(t.Context(), http.MethodPost, base+"/v1/audio/transcriptions", &body)
			req.Header.Set("Content-Type", form.FormDataContentType())
			if a := c.do(req); a.status != 200 || got.Load() != sent {
				t.Errorf("%d bytes: %d %s %v", size, a.status, a.body, a.err)
			}
		}
		a := c.post("/v1/audio/transcriptions", chatBody)
		if message, _, _ := a.apiError(t); a.status != 400 || !strings.Contains(message, "multipart") {
			t.Errorf("%d %s", a.status, a.body)
		}
	})
}

func TestBadBodies(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, func(c *Config) { c.MaxBody, c.KeepBody, c.BodyIdle = 100_000, 1000, 5*time.Second })
		c.set(model("m", c.engine("a", "10.0.0.1", ok("a"))))
		big := `{"model":"m","x":"` + strings.Repeat("y", 200_000) + `"}`
		for name, tc := range map[string]struct {
			body    string
			chunked bool
			status  int
			want    string
		}{
			"not JSON":                 {"hello", false, 400, "not a JSON object"},
			"empty":                    {"", false, 400, "empty"},
			"no model":                 {"{}", false, 400, `"model" is missing`},
			"model twice":              {`{"model":"m","model":"n"}`, false, 400, "twice"},
			"stream is text":           {`{"model":"m","stream":"yes"}`, false, 400, "neither true nor false"},
			"too large":                {big, false, 413, "more than 100000 bytes"},
			"too large in chunks":      {big, true, 413, "more than 100000 bytes"},
			"chunks":                   {chatBody, true, 200, ""},
			"large":                    {big[:50_000] + `"}`, false, 200, ""},
			"large, model at the end":  {`{"x":"` + strings.Repeat("y", 50_000) + `","model":"m"}`, true, 200, ""},
			"large, model twice":       {`{"model":"m","x":"` + strings.Repeat("y", 50_000) + `","model":"n"}`, false, 400, "not valid"},
			"large, unknown model":     {strings.Replace(big[:50_000], `"m"`, `"n"`, 1) + `"}`, false, 404, "does not exist"},
			"large, no model anywhere": {`{"x":"` + strings.Repeat("y", 50_000) + `"}`, false, 400, `"model" is missing`},
		} {
			var r io.Reader = strings.NewReader(tc.body)
			if tc.chunked {
				r = io.MultiReader(r)
			}
			req, _ := http.NewRequestWithContext(t.Context(), http.MethodPost, base+chatPath, r)
			a := c.do(req)
			if a.status != tc.status || a.err != nil {
				t.Errorf("%s: %d %s %v", name, a.status, a.body, a.err)
			} else if a.status != 200 {
				if message, _, _ := a.apiError(t); !strings.Contains(message, tc.want) {
					t.Errorf("%s: %s", name, message)
				}
			}
		}
		if used := c.router.handler.intake.memory.used.Load(); used != 0 {
			t.Errorf("%d bytes of memory were not given back", used)
		}
		c.settled("a")
	})
}

// TestAnswerMayBeginBeforeALargeBodyEnds: an early answer does not cost the rest of the upload, nor that the answer.
func TestAnswerMayBeginBeforeALargeBodyEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, nil)
		c.set(model("m", c.engine("a", "10.0.0.1", func(w http.ResponseWriter, r *http.Request) {
			_ = http.NewResponseController(w).EnableFullDuplex()
			first, _ := io.CopyN(io.Discard, r.Body, 3<<20-200_000) // what is left is less than net/http discards by itself
			w.WriteHeader(http.StatusOK)
			w.(http.Flusher).Flush()
			time.Sleep(time.Second)
			rest, err := io.Copy(io.Discard, r.Body)
			fmt.Fprint(w, first+rest, " ", err)
		})))
		body := `{"model":"m","x":"` + strings.Repeat("y", 3<<20) + `"}`
		if a := c.post(chatPath, body); a.body != fmt.Sprint(len(body), " <nil>") || a.err != nil {
			t.Errorf("%d %s %v, want %d", a.status, a.body, a.err, len(body))
		}
		c.settled("a")
	})
}

func TestSlowAndHalfBodies(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, func(c *Config) { c.BodyIdle = 5 * time.Second })
		c.set(model("m", c.engine("a", "10.0.0.1", ok("a"))))
		start := time.Now()
		_, r := c.raw("POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: 50\r\n\r\n{\"model\":")
		if line, _ := r.ReadString('\n'); !strings.Contains(line, "408") || time.Since(start) != 5*time.Second {
			t.Errorf("%s after %v", line, time.Since(start))
		}
		start = time.Now()
		_, r = c.raw("POST /nowhere HTTP/1.1\r\nHost: x\r\nContent-Length: 50\r\n\r\n{")
		if line, _ := r.ReadString('\n'); !strings.Contains(line, "404") || time.Since(start) != 5*time.Second {
			t.Errorf("%s after %v", line, time.Since(start))
		}
		conn, r := c.raw("POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: 26\r\n\r\n{\"model\":")
		for _, b := range []byte(`"m","messages":[]`) { // slower than 5 s in all, but never silent for so long
			time.Sleep(4 * time.Second)
			_, _ = conn.Write([]byte{b})
		}
		if line, _ := r.ReadString('\n'); !strings.Contains(line, "400") { // the last bytes are missing a brace
			t.Errorf("slow body: %s", line)
		}
		for _, head := range []string{
			"POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\nContent-Length: 6\r\n\r\n",
			"POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\n{}",
			"POST /v1/completions HTTP/1.1\r\nHost: x\r\nHost: y\r\nContent-Length: 2\r\n\r\n{}",
			"POST /v1/completions HTTP/1.1\r\nHost: x\r\nA: b\r\n c\r\nTransfer-Encoding: xchunked\r\n\r\n",
		} {
			_, r := c.raw(head)
			if line, _ := r.ReadString('\n'); line != "" && !strings.Contains(line, " 4") && !strings.Contains(line, " 501") {
				t.Errorf("%q: %s", head, line)
			}
		}
	})
}

// TestColdModel: a stream waits with keep-alives, its answer follows in the clear; what fails then fails in the stream.
func TestColdModel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, nil)
		row := model("m")
		row.Serve.Queue.Timeout = fleet.Duration(2 * time.Minute)
		c.set(row)
		time.AfterFunc(50*time.Second, func() {
			row.Endpoints = append(row.Endpoints, c.engine("a", "10.0.0.1", func(w http.ResponseWriter, r *http.Request) {
				if got := r.Header.Get("Accept-Encoding"); got != "" {
					t.Errorf("the engine may encode as %s", got)
				}
				sse(2, time.Second)(w, r)
			}))
			c.peers.set(row)
		})
		start := time.Now()
		req, _ := http.NewRequestWithContext(t.Context(), http.MethodPost, base+chatPath, strings.NewReader(`{"model":"m","stream":true}`))
		req.Header.Set("Accept-Encoding", "gzip") // which an engine must not be told: the answer has begun in the clear
		resp, err := c.client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		if d := time.Since(start); d < 5*time.Second || d > 5100*time.Millisecond || resp.StatusCode != 200 || resp.Header.Get("X-Accel-Buffering") != "no" {
			t.Errorf("headers after %v: %d %v", d, resp.StatusCode, resp.Header)
		}
		if d := c.peers.last(t).Demand; d["m"].Waiting != 1 || d["m"].Oldest < 3 {
			t.Errorf("demand %v", d)
		}
		body, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		want := strings.Repeat(": waiting for a replica of the model\n\n", 4) + "data: {\"n\":0}\n\ndata: {\"n\":1}\n\ndata: [DONE]\n\n"
		if string(body) != want || err != nil {
			t.Errorf("%q %v", body, err)
		}
		c.set(model("m"))
		a := c.post(chatPath, `{"model":"m","stream":true}`)
		if a.status != 200 || a.err == nil || !strings.Contains(a.body, `data: {"error":{`) || strings.Contains(a.body, "[DONE]") {
			t.Errorf("%d %q %v", a.status, a.body, a.err)
		}
		a = c.post(chatPath, chatBody)
		if _, _, code := a.apiError(t); a.status != 503 || code != "model_not_ready" || a.header.Get("Retry-After") == "" {
			t.Errorf("%d %s", a.status, a.body)
		}
	})
}

func TestHTTP2(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, nil)
		var gone atomic.Bool
		c.set(model("m", c.engine("a", "10.0.0.1", func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body)
			w.Header().Set("Connection", "X-Hop")
			w.Header().Set("X-Hop", "1")
			w.Header().Set("Trailer", "X-Usage")
			w.Header().Set("Content-Type", "text/event-stream")
			fmt.Fprint(w, "data: 1\n\n")
			w.(http.Flusher).Flush()
			select {
			case <-r.Context().Done():
				gone.Store(true)
			case <-time.After(3 * time.Second):
			}
			w.Header().Set("X-Usage", "7")
		})))
		c.client.Transport = h2c(c)
		resp, err := c.client.Post(base+chatPath, "application/json", strings.NewReader(chatBody))
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(resp.Body)
		if err != nil || string(body) != "data: 1\n\n" || resp.ProtoMajor != 2 || resp.Trailer.Get("X-Usage") != "7" || resp.Header.Get("X-Hop") != "" {
			t.Errorf("%v %q %s %v %v", err, body, resp.Proto, resp.Trailer, resp.Header)
		}
		resp, err = c.client.Post(base+chatPath, "application/json", strings.NewReader(chatBody))
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close() // RST_STREAM
		time.Sleep(2 * time.Second)
		if !gone.Load() {
			t.Error("a reset stream did not end the engine's work")
		}
		c.settled("a")
	})
}
