package router

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// later sends a request and gives its answer when it is there.
func (c *cluster) later(path, body string) <-chan answer {
	c.Helper()
	req, err := http.NewRequestWithContext(c.ctx, http.MethodPost, base+path, strings.NewReader(body))
	if err != nil {
		c.Fatal(err)
	}
	out := make(chan answer, 1)
	go func() { out <- c.do(req) }()
	return out
}

// TestStreamCutAtTheDrainDeadline: the client is told by an error event, and the answer does not look whole.
func TestStreamCutAtTheDrainDeadline(t *testing.T) {
	for name, transport := range map[string]func(*cluster) http.RoundTripper{"http1": func(c *cluster) http.RoundTripper { return c.client.Transport }, "h2c": h2c} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newCluster(t, func(c *Config) { c.Drain = 5 * time.Second })
				c.set(model("m", c.engine("a", "10.0.0.1", sse(1000, time.Second))))
				c.client = &http.Client{Transport: transport(c)}
				time.AfterFunc(3*time.Second, c.stop)
				a := c.post(chatPath, `{"model":"m","stream":true}`)
				if a.err == nil || strings.Contains(a.body, "[DONE]") || !strings.Contains(a.body, `"code":"router_stopping"`) {
					t.Errorf("%v after %q", a.err, a.body)
				}
			})
		})
	}
}

// TestWaitingRequestCutAtTheDrainDeadline: what no engine has answered is told to come again.
func TestWaitingRequestCutAtTheDrainDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, func(c *Config) { c.Drain = 5 * time.Second })
		c.set(model("m", c.engine("a", "10.0.0.1", func(_ http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body)
			<-r.Context().Done()
		})))
		time.AfterFunc(3*time.Second, c.stop)
		a := c.post(chatPath, chatBody)
		if _, _, code := a.apiError(t); a.status != 503 || code != "router_stopping" || a.header.Get("Retry-After") == "" {
			t.Errorf("%d %s %v", a.status, a.body, a.err)
		}
	})
}

// TestHungEngineIsLeft: an engine that takes requests and whose tokens do not move, while its headers come, is left by who
// waits for a first byte and by all that come later. Its one begun stream stays for two minutes, and is then told.
func TestHungEngineIsLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, nil)
		var stuck atomic.Int64
		hang := c.engine("a", "10.0.0.1", func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body)
			w.Header().Set("Content-Type", "text/event-stream")
			if stuck.Add(1) == 1 {
				fmt.Fprint(w, "data: {}\n\n")
			}
			w.(http.Flusher).Flush()
			<-r.Context().Done()
		})
		c.set(model("m", hang))
		first := c.later(chatPath, `{"model":"m","stream":true}`)
		time.Sleep(time.Second)
		start, answers := time.Now(), []<-chan answer{}
		for range 3 {
			answers = append(answers, c.later(chatPath, `{"model":"m","stream":true}`))
		}
		time.Sleep(time.Second)
		c.set(model("m", hang, c.engine("b", "10.0.0.2", sse(3, time.Second))))
		for _, answer := range answers {
			if a := <-answer; !strings.HasSuffix(a.body, "[DONE]\n\n") || a.err != nil || time.Since(start) > 40*time.Second {
				t.Errorf("%v after %v: %q", a.err, time.Since(start), a.body)
			}
		}
		for range 10 {
			begin := time.Now()
			if a := c.post(chatPath, chatBody); a.status != 200 || time.Since(begin) > 4*time.Second {
				t.Errorf("%d after %v", a.status, time.Since(begin))
			}
		}
		if stuck.Load() != 4 {
			t.Errorf("the hung engine got %d requests", stuck.Load())
		}
		select {
		case a := <-first:
			t.Errorf("the stream that had begun was cut: %v %q", a.err, a.body)
		default:
		}
		select {
		case a := <-first:
			if d := time.Since(start); a.err == nil || !strings.Contains(a.body, `"code":"replica_failed"`) || strings.Contains(a.body, "[DONE]") || d < 110*time.Second {
				t.Errorf("the stream that had begun ended after %v: %v %q", d, a.err, a.body)
			}
		case <-time.After(2 * time.Minute):
			t.Error("the stream that had begun is held for ever")
		}
		c.settled("a")
	})
}

// TestDeathBeforeTheFirstByteOfAStream: an engine that sent its headers and died is not seen by the client.
func TestDeathBeforeTheFirstByteOfAStream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, nil)
		c.set(model("m", c.engine("a", "10.0.0.1", func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body)
			w.Header().Set("Content-Type", "text/event-stream")
			w.(http.Flusher).Flush()
			time.Sleep(time.Second)
			reset(w, r)
		}), c.engine("b", "10.0.0.2", sse(3, time.Second))))
		for range 4 {
			if a := c.post(chatPath, `{"model":"m","stream":true}`); a.err != nil || !strings.HasPrefix(a.body, "data: {\"n\":0}") || !strings.HasSuffix(a.body, "[DONE]\n\n") {
				t.Errorf("%v %q", a.err, a.body)
			}
		}
		c.settled("a")
		c.settled("b")
	})
}
