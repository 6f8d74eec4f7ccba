package router

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"berth/fleet/wire"
)

// count wraps an engine and counts its requests.
func count(n *atomic.Int64, h http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) { n.Add(1); h(w, r) }
}

func status(code int, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.WriteHeader(code)
		fmt.Fprint(w, body)
	}
}

// TestEveryEndingEndsOnce: field case C05. Fifty requests end in every way there is; then nothing is in flight.
func TestEveryEndingEndsOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, nil)
		c.set(model("m", c.engine("a", "10.0.0.1", func(w http.ResponseWriter, r *http.Request) {
			body, _ := io.ReadAll(r.Body)
			switch text := string(body); {
			case strings.Contains(text, "slow"):
				select {
				case <-r.Context().Done():
				case <-time.After(time.Minute):
				}
			case strings.Contains(text, "stream"):
				sse(100, time.Second)(w, r)
			case strings.Contains(text, "reset"):
				time.Sleep(time.Second)
				reset(w, r)
			case strings.Contains(text, "500"):
				w.WriteHeader(500)
			default:
				ok("a")(w, r)
			}
		})))
		var wg sync.WaitGroup
		for i := range 50 {
			kind := []string{"fine", "slow", "stream", "reset", "500"}[i%5]
			wg.Go(func() {
				time.Sleep(time.Duration(i) * time.Millisecond) // in this order no five failures come in a row
				body := fmt.Sprintf(`{"model":"m","x":%q}`, kind)
				conn, answer := c.raw(fmt.Sprintf("POST %s HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s", chatPath, len(body), body))
				time.Sleep(3 * time.Second)
				defer conn.Close()
				if kind == "slow" {
					return // its answer never comes
				}
				want := map[string]string{"fine": "200", "stream": "200", "reset": "502", "500": "500"}[kind]
				if line, _ := answer.ReadString('\n'); !strings.Contains(line, want) {
					t.Errorf("%s: %s, want %s", kind, line, want)
				}
			})
		}
		time.Sleep(2500 * time.Millisecond)
		if u := c.peers.last(t).Uses["a"]; u.InFlight != 20 {
			t.Errorf("%d in flight in between, want 20", u.InFlight)
		}
		wg.Wait()
		c.settled("a")
	})
}

func TestEngineDeathBeforeTheFirstByteIsRetried(t *testing.T) {
	for name, h := range map[string]http.HandlerFunc{"reset": reset, "503": status(503, "no"), "502": status(502, "<html>"), "504": status(504, "")} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newCluster(t, nil)
				var bad, good atomic.Int64
				c.set(model("m", c.engine("a", "10.0.0.1", count(&bad, h)), c.engine("b", "10.0.0.2", count(&good, ok("b")))))
				for range 4 {
					if a := c.post(chatPath, chatBody); a.status != 200 || a.body != `{"from":"b"}` {
						t.Errorf("%d %s %v", a.status, a.body, a.err)
					}
				}
				if bad.Load() == 0 || good.Load() != 4 {
					t.Errorf("%d at the dying engine, %d at the other", bad.Load(), good.Load())
				}
				c.settled("a")
				c.settled("b")
			})
		})
	}
}

func TestWhatIsNotRetried(t *testing.T) {
	for _, code := range []int{400, 404, 422, 429, 500} {
		synctest.Test(t, func(t *testing.T) {
			c := newCluster(t, nil)
			var calls atomic.Int64
			h := count(&calls, status(code, `{"detail":"no"}`))
			c.set(model("m", c.engine("a", "10.0.0.1", h), c.engine("b", "10.0.0.2", h)))
			a := c.post(chatPath, chatBody)
			if message, _, _ := a.apiError(t); a.status != code || message != "no" || calls.Load() != 1 {
				t.Errorf("%d: %d %s in %d calls", code, a.status, a.body, calls.Load())
			}
		})
	}
}

// TestClientErrorsOpenNoBreaker: a hundred bad requests leave the replica in use; five server errors do not.
func TestClientErrorsOpenNoBreaker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, nil)
		var code atomic.Int64
		c.set(model("m", c.engine("a", "10.0.0.1", func(w http.ResponseWriter, r *http.Request) { status(int(code.Load()), "x")(w, r) })))
		code.Store(400)
		for range 100 {
			c.post(chatPath, chatBody)
		}
		if a := c.post(chatPath, chatBody); a.status != 400 {
			t.Errorf("%d after client errors", a.status)
		}
		code.Store(500)
		for range 5 {
			c.post(chatPath, chatBody)
		}
		a := c.post(chatPath, chatBody)
		if _, kind, _ := a.apiError(t); a.status != 503 || kind != "service_unavailable_error" || a.header.Get("Retry-After") == "" {
			t.Errorf("after server errors: %d %s", a.status, a.body)
		}
		code.Store(200)
		time.Sleep(time.Second)
		if a := c.post(chatPath, chatBody); a.status != 200 {
			t.Errorf("%d when it recovered", a.status)
		}
	})
}

// TestRefusedConnection: field case C51. A replica has moved and the router cannot know; its old node refuses.
func TestRefusedConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, nil)
		c.net.Host("10.0.0.1")
		old := wire.Endpoint{Replica: "a", Address: "10.0.0.1:20000", Key: "k", State: "ready"}
		c.set(model("m", old))
		c.peers.change(func() { c.peers.dead = true })
		start := time.Now()
		a := c.post(chatPath, chatBody)
		if _, _, code := a.apiError(t); a.status != 503 || code != "model_not_ready" || a.header.Get("Retry-After") == "" || time.Since(start) > 2*time.Second {
			t.Errorf("%d after %v: %s", a.status, time.Since(start), a.body)
		}
		if a := c.post(chatPath, chatBody); a.status != 503 || a.header.Get("Retry-After") == "" {
			t.Errorf("set aside: %d %s", a.status, a.body)
		}
		moved := c.engine("a", "10.0.0.2", ok("n2"))
		c.peers.change(func() { c.peers.dead = false })
		c.peers.set(model("m", moved))
		time.Sleep(4 * time.Second) // the pause between questions to dead peers is at most 3 s
		for range 10 {
			if a := c.post(chatPath, chatBody); a.body != `{"from":"n2"}` {
				t.Errorf("after the move: %d %s", a.status, a.body)
			}
		}
		c.settled("a")
	})
}

// TestRetryBudget: replicas that fail every other request, too seldom to be set aside, cost a bounded number of retries.
func TestRetryBudget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, nil)
		var calls atomic.Int64
		var all []wire.Endpoint
		for i := range 4 {
			var own atomic.Int64
			all = append(all, c.engine(fmt.Sprint("r", i), fmt.Sprint("10.0.0.", i+1), count(&calls, func(w http.ResponseWriter, r *http.Request) {
				if own.Add(1)%2 == 0 {
					ok("fine")(w, r)
					return
				}
				status(503, "overloaded")(w, r)
			})))
		}
		c.set(model("m", all...))
		const requests = 400
		failed := 0
		for range requests {
			if a := c.post(chatPath, chatBody); a.status != 200 {
				failed++
				if a.apiError(t); a.status != 503 || a.header.Get("Retry-After") == "" {
					t.Fatalf("%d %s", a.status, a.body)
				}
			}
		}
		extra := calls.Load() - requests
		if limit := int64(retryMax/2 + requests*retryShare + 1); extra > limit || extra < limit/2 || failed == 0 {
			t.Errorf("%d retries for %d requests, at most %d are due; %d requests failed", extra, requests, limit, failed)
		}
	})
}

// TestTrialOpensTheWay: a replica that was set aside is in use again when it begins to answer its trial, not when a
// stream of minutes has ended.
func TestTrialOpensTheWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, nil)
		c.net.Host("10.0.0.1")
		c.set(model("m", wire.Endpoint{Replica: "a", Address: "10.0.0.1:20000", Key: "key-a", State: "ready"}))
		c.post(chatPath, chatBody)
		c.engine("a", "10.0.0.1", sse(60, time.Second))
		time.Sleep(time.Second)
		for range 2 {
			resp, err := c.client.Post(base+chatPath, "application/json", strings.NewReader(chatBody))
			if err != nil || resp.StatusCode != 200 {
				t.Fatalf("%v %v", resp, err)
			}
			defer resp.Body.Close()
		}
		time.Sleep(time.Second)
		if u := c.peers.last(t).Uses["a"]; u.InFlight != 2 {
			t.Errorf("%+v", u)
		}
	})
}

func TestBudget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBudget()
		spend := func() (n int) {
			for b.withdraw() {
				n++
			}
			return n
		}
		if n := spend(); n != retryMax/2 {
			t.Errorf("%d at the start", n)
		}
		for range 51 {
			b.deposit()
		}
		if n := spend(); n != 10 {
			t.Errorf("%d after 51 requests", n)
		}
		time.Sleep(3 * time.Second)
		if n := spend(); n != 3 {
			t.Errorf("%d after 3 s", n)
		}
		for range 1000 {
			b.deposit()
		}
		if n := spend(); n != retryMax {
			t.Errorf("%d after 1000 requests", n)
		}
	})
}

// door is an engine behind a door that refuses until it is opened.
type door struct {
	reason   atomic.Value // "" or absent: open
	refused  atomic.Int64
	bodyRead atomic.Int64
}

func (d *door) handler(next http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		reason, _ := d.reason.Load().(string)
		if reason == "" {
			n, _ := io.Copy(io.Discard, r.Body)
			d.bodyRead.Add(n)
			next(w, r)
			return
		}
		d.refused.Add(1)
		w.Header().Set("Berth-Door", reason)
		w.Header().Set("Retry-After", "1")
		code := map[string]int{"wrong-key": 421, "route": 404}[reason]
		if code == 0 {
			code = 503
		}
		w.WriteHeader(code)
		fmt.Fprint(w, `{"error":{"code":"not_ready","message":"shut"}}`)
	}
}

func TestDoorRefusalsNeverReachAClient(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, nil)
		var d door
		c.set(model("m", c.engine("a", "10.0.0.1", d.handler(ok("a")))))
		for _, reason := range []string{"shut", "starting"} {
			d.reason.Store(reason)
			time.AfterFunc(20*time.Second, func() { d.reason.Store("") })
			start := time.Now()
			if a := c.post(chatPath, chatBody); a.status != 200 || time.Since(start) < 20*time.Second || time.Since(start) > 21*time.Second {
				t.Errorf("%s: %d %s after %v", reason, a.status, a.body, time.Since(start))
			}
		}
		if n := d.refused.Load(); n < 100 {
			t.Errorf("%d refusals: the door was not asked again", n)
		}
		if got := c.router.handler.budget.tokens; got < retryMax/2 {
			t.Errorf("refusals cost budget: %v", got)
		}
		c.settled("a")
	})
}

// TestStreamThatWaitsForADoorIsKeptAlive: many short waits are one long one to the client.
func TestStreamThatWaitsForADoorIsKeptAlive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, nil)
		var d door
		d.reason.Store("starting")
		c.set(model("m", c.engine("a", "10.0.0.1", d.handler(sse(1, 0)))))
		time.AfterFunc(30*time.Second, func() { d.reason.Store("") })
		a := c.post(chatPath, `{"model":"m","stream":true}`)
		if n := strings.Count(a.body, ": waiting"); n != 2 || !strings.HasSuffix(a.body, "data: {\"n\":0}\n\ndata: [DONE]\n\n") || a.err != nil {
			t.Errorf("%d comments in %q, %v", n, a.body, a.err)
		}
	})
}

func TestDoorRefusalGoesElsewhereAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, nil)
		var d door
		d.reason.Store("shut")
		c.set(model("m", c.engine("a", "10.0.0.1", d.handler(ok("a"))), c.engine("b", "10.0.0.2", ok("b"))))
		start := time.Now()
		for range 50 {
			if a := c.post(chatPath, chatBody); a.body != `{"from":"b"}` {
				t.Fatalf("%d %s", a.status, a.body)
			}
		}
		if d := time.Since(start); d > 10*time.Millisecond {
			t.Errorf("took %v", d)
		}
	})
}

func TestWrongKeyWaitsForTheNextTable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, nil)
		var d door
		d.reason.Store("wrong-key")
		e := c.engine("a", "10.0.0.1", d.handler(ok("a")))
		c.set(model("m", e))
		time.AfterFunc(10*time.Second, func() {
			d.reason.Store("")
			c.peers.set(model("m", e))
		})
		start := time.Now()
		if a := c.post(chatPath, chatBody); a.status != 200 || time.Since(start) < 10*time.Second || d.refused.Load() != 1 {
			t.Errorf("%d %s after %v and %d refusals", a.status, a.body, time.Since(start), d.refused.Load())
		}
	})
}

func TestDoorThatDoesNotKnowTheRoute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, nil)
		var d door
		d.reason.Store("route")
		c.set(model("m", c.engine("a", "10.0.0.1", d.handler(ok("a")))))
		a := c.post("/v1/score", chatBody)
		if _, _, code := a.apiError(t); a.status != 404 || code != "not_found" {
			t.Errorf("%d %s", a.status, a.body)
		}
	})
}

// TestLargeBodySurvivesADoorsRefusal: a body too large to keep is offered with Expect: 100-continue, so a refusal leaves
// it unspent.
func TestLargeBodySurvivesADoorsRefusal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, nil)
		var d door
		d.reason.Store("starting")
		c.set(model("m", c.engine("a", "10.0.0.1", d.handler(ok("a")))))
		time.AfterFunc(5*time.Second, func() { d.reason.Store("") })
		body := `{"model":"m","x":"` + strings.Repeat("y", 3<<20) + `"}`
		a := c.post(chatPath, body)
		if a.status != 200 || d.refused.Load() < 5 || d.bodyRead.Load() != int64(len(body)) {
			t.Errorf("%d %s %v: %d refusals, %d bytes", a.status, a.body, a.err, d.refused.Load(), d.bodyRead.Load())
		}
	})
}
