package router

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// TestEveryWriteIsFlushed: field case C16. Chunks come 200 ms apart and must arrive as they come; headers 5 s before the first.
func TestEveryWriteIsFlushed(t *testing.T) {
	for _, kind := range []string{"text/event-stream", "text/event-stream; charset=utf-8", "application/x-ndjson", ""} {
		t.Run(kind, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newCluster(t, nil)
				c.set(model("m", c.engine("a", "10.0.0.1", func(w http.ResponseWriter, r *http.Request) {
					_, _ = io.Copy(io.Discard, r.Body)
					w.Header()["Content-Type"] = nil
					if kind != "" {
						w.Header().Set("Content-Type", kind)
					}
					w.(http.Flusher).Flush()
					time.Sleep(5 * time.Second)
					for range 20 {
						fmt.Fprint(w, "data: 12345678\n")
						w.(http.Flusher).Flush()
						time.Sleep(200 * time.Millisecond)
					}
				})))
				start := time.Now()
				resp, err := c.client.Post(base+chatPath, "application/json", strings.NewReader(chatBody))
				if err != nil {
					t.Fatal(err)
				}
				defer resp.Body.Close()
				if d := time.Since(start); d > 50*time.Millisecond {
					t.Errorf("headers after %v", d)
				}
				if got := resp.Header.Get("Content-Type"); got != kind {
					t.Errorf("content type %q", got)
				}
				if stream := kind != ""; stream != (resp.Header.Get("X-Accel-Buffering") == "no") || stream != (resp.Header.Get("Cache-Control") == "no-cache") {
					t.Errorf("headers %v", resp.Header)
				}
				buf := make([]byte, 1000)
				for i := range 20 {
					n, err := resp.Body.Read(buf)
					late := time.Since(start) - 5*time.Second - time.Duration(i)*200*time.Millisecond
					if n != 15 || err != nil || late < 0 || late > 50*time.Millisecond {
						t.Fatalf("chunk %d: %d bytes, %v, %v late", i, n, err, late)
					}
				}
			})
		})
	}
}

// TestClientGoneCancelsTheEngine: field case C14, in all three phases.
func TestClientGoneCancelsTheEngine(t *testing.T) {
	head := "POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
	for _, stream := range []bool{false, true} {
		for _, phase := range []string{"before headers", "answer without a stream", "mid-stream"} {
			t.Run(fmt.Sprint(phase, stream), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					c := newCluster(t, nil)
					var aborted atomic.Int64
					c.set(model("m", c.engine("a", "10.0.0.1", func(w http.ResponseWriter, r *http.Request) {
						_, _ = io.Copy(io.Discard, r.Body)
						start := time.Now()
						if phase != "before headers" {
							w.Header().Set("Content-Type", map[bool]string{true: "text/event-stream", false: "application/json"}[phase == "mid-stream"])
							fmt.Fprint(w, "data: 1\n\n")
							w.(http.Flusher).Flush()
						}
						select {
						case <-r.Context().Done():
							aborted.Store(int64(time.Since(start)))
						case <-time.After(time.Minute):
						}
					})))
					body := fmt.Sprintf(`{"model":"m","max_tokens":9999,"messages":[],"stream":%v}   `, stream)
					conn, _ := c.raw(fmt.Sprintf("%sContent-Length: %d\r\n\r\n%s", head, len(body), body))
					time.Sleep(3 * time.Second)
					conn.Close()
					time.Sleep(2 * time.Second)
					if d := time.Duration(aborted.Load()); d < 2*time.Second || d > 5*time.Second {
						t.Errorf("the engine was aborted after %v, want 3s", d)
					}
					c.settled("a")
					if u := c.peers.last(t).Uses["a"]; u.Age > 5 {
						t.Errorf("the aborted request does not count as use: %v", u)
					}
				})
			})
		}
	}
}

// TestBytesPassUntouched: field case C18. What goes through the router is what a direct call gets.
func TestBytesPassUntouched(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, nil)
		var zipped bytes.Buffer
		z := gzip.NewWriter(&zipped)
		fmt.Fprint(z, `{"a":"`+strings.Repeat("x", 1000)+`"}`)
		z.Close()
		events := "event: ping\nid: 7\n: a comment\ndata: {\"a\":1}\n\ndata: [DONE]\n\n"
		var seen atomic.Pointer[http.Header]
		c.set(model("m", c.engine("a", "10.0.0.1", func(w http.ResponseWriter, r *http.Request) {
			body, _ := io.ReadAll(r.Body)
			h := r.Header.Clone()
			seen.Store(&h)
			w.Header().Set("Connection", "X-Hop-Back")
			w.Header().Set("X-Hop-Back", "1")
			w.Header().Set("X-Kept", "1")
			switch {
			case bytes.Contains(body, []byte("gzip")):
				w.Header().Set("Content-Encoding", "gzip")
				w.Header().Set("Content-Type", "application/json")
				w.Header().Set("Content-Length", fmt.Sprint(zipped.Len()))
				_, _ = w.Write(zipped.Bytes())
			case bytes.Contains(body, []byte("events")):
				w.Header().Set("Content-Type", "text/event-stream")
				w.Header().Set("Keep-Alive", "timeout=5")
				fmt.Fprint(w, events)
			default:
				w.Header().Set("Trailer", "X-Usage")
				fmt.Fprint(w, "abc")
				w.(http.Flusher).Flush()
				w.Header().Set("X-Usage", "7")
				w.Header().Set(http.TrailerPrefix+"X-Late", "8")
			}
		})))
		call := func(what string) (*http.Response, string) {
			req, _ := http.NewRequestWithContext(t.Context(), http.MethodPost, base+chatPath, strings.NewReader(`{"model":"m","x":"`+what+`"}`))
			req.Header = http.Header{"Content-Type": {"application/json"}, "Accept-Encoding": {"gzip"}, "Connection": {"X-Hop"}, "X-Hop": {"1"}, "Te": {"trailers"}, "Expect": {"100-continue"},
				"X-Request-Id": {"id-1"}, "Traceparent": {"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"}, "Authorization": {"Bearer secret"}, "Berth-Replica-Key": {"forged"}}
			resp, err := c.client.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			defer resp.Body.Close()
			body, err := io.ReadAll(resp.Body)
			if err != nil {
				t.Fatal(err)
			}
			return resp, string(body)
		}
		resp, body := call("gzip")
		if body != zipped.String() || resp.Header.Get("Content-Encoding") != "gzip" || resp.ContentLength != int64(zipped.Len()) {
			t.Errorf("gzip: %d bytes, headers %v", len(body), resp.Header)
		}
		if resp.Header.Get("X-Hop-Back") != "" || resp.Header.Get("X-Kept") != "1" || resp.Header.Get("X-Request-Id") != "id-1" {
			t.Errorf("headers to the client %v", resp.Header)
		}
		h := *seen.Load()
		for name, want := range map[string]string{"X-Hop": "", "Connection": "", "Te": "trailers", "X-Request-Id": "id-1", "Berth-Replica-Key": "key-a",
			"Authorization": "", "Traceparent": "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01", "Accept-Encoding": "gzip", "Expect": ""} {
			if got := h.Get(name); got != want || len(h[name]) > 1 {
				t.Errorf("to the engine: %s is %q, want %q", name, h[name], want)
			}
		}
		resp, body = call("events")
		if body != events || resp.Header.Get("Keep-Alive") != "" || resp.ContentLength != -1 && resp.ContentLength != int64(len(events)) {
			t.Errorf("events: %q, headers %v", body, resp.Header)
		}
		resp, body = call("trailers")
		if body != "abc" || resp.Trailer.Get("X-Usage") != "7" || resp.Trailer.Get("X-Late") != "8" {
			t.Errorf("trailers: %q %v", body, resp.Trailer)
		}
	})
}

// TestDeathAfterTheFirstByte: an error event, an abnormal end, never [DONE], and no retry.
func TestDeathAfterTheFirstByte(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, nil)
		var calls atomic.Int64
		die := func(w http.ResponseWriter, r *http.Request) {
			calls.Add(1)
			_, _ = io.Copy(io.Discard, r.Body)
			w.Header().Set("Content-Type", "text/event-stream")
			fmt.Fprint(w, "data: {\"n\":1}\n\n")
			w.(http.Flusher).Flush()
			time.Sleep(time.Second)
			panic(http.ErrAbortHandler)
		}
		c.set(model("m", c.engine("a", "10.0.0.1", die), c.engine("b", "10.0.0.2", die)))
		for path, want := range map[string]string{
			"/v1/chat/completions": `data: {"error":{"message":`,
			"/v1/responses":        "event: error\ndata: {\"type\":\"error\",",
			"/v1/messages":         "event: error\ndata: {\"type\":\"error\",\"error\":{",
		} {
			calls.Store(0)
			a := c.post(path, `{"model":"m","stream":true}`)
			if a.status != 200 || a.err == nil || !strings.Contains(a.body, want) || strings.Contains(a.body, "[DONE]") || calls.Load() != 1 {
				t.Errorf("%s: %d %q, end %v, %d calls", path, a.status, a.body, a.err, calls.Load())
			}
		}
		c.settled("a")
		c.settled("b")
	})
}

// TestBrokenJSONAnswerEndsAbnormally: no error is written into a body that is not a stream, and its end is no good end.
func TestBrokenJSONAnswerEndsAbnormally(t *testing.T) {
	for _, length := range []string{"", "100"} {
		synctest.Test(t, func(t *testing.T) {
			c := newCluster(t, nil)
			c.set(model("m", c.engine("a", "10.0.0.1", func(w http.ResponseWriter, r *http.Request) {
				if length != "" {
					w.Header().Set("Content-Length", length)
				}
				fmt.Fprint(w, `{"half":`)
				w.(http.Flusher).Flush()
				panic(http.ErrAbortHandler)
			})))
			if a := c.post(chatPath, chatBody); a.body != `{"half":` || a.err == nil {
				t.Errorf("%q, end %v", a.body, a.err)
			}
		})
	}
}
