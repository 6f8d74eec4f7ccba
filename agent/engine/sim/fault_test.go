package sim

import (
	"compress/gzip"
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// faulty runs test on an engine with f, paced as in the timing tests.
func faulty(t *testing.T, f Fault, test func(t *testing.T, r *running)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		cfg := paced
		cfg.Fault, cfg.EnableFaults = f, true
		r := start(t, newNet(), cfg)
		<-r.Ready()
		test(t, r)
	})
}

func TestCrashAfterRequests(t *testing.T) {
	faulty(t, Fault{CrashAfterRequests: 2, CrashCode: 7}, func(t *testing.T, r *running) {
		if _, err := r.stream(t.Context(), "/v1/completions", completion("a", 1)); err != nil {
			t.Errorf("the first request: %v", err)
		}
		if _, err := r.stream(t.Context(), "/v1/completions", completion("a", 1)); err == nil {
			t.Error("the second request was answered")
		}
		r.wantExit(7)
	})
}

func TestCrashAfterTimeCutsStreams(t *testing.T) {
	faulty(t, Fault{CrashAfter: Duration(time.Second)}, func(t *testing.T, r *running) {
		events, err := r.stream(t.Context(), "/v1/completions", completion("a", 100))
		if err == nil || len(events) != 9 { // at 101 ms, 201 ms, … 901 ms
			t.Errorf("%d events, then %v; want 9 and an error", len(events), err)
		}
		r.wantExit(1)
		r.wantOutcome(Aborted)
	})
}

func TestStreamFaults(t *testing.T) {
	tests := []struct {
		how      string
		complete bool // the body ends as if whole
		last     string
		outcome  Outcome
	}{
		{"reset", false, `{"index":0,"text"`, Broken},
		{"end", true, `{"index":0,"text"`, Broken},
		{"error", true, "[DONE]", Broken},
		{"crash", false, `{"index":0,"text"`, Broken},
		{"hang", false, `{"index":0,"text"`, Aborted},
	}
	for _, tt := range tests {
		t.Run(tt.how, func(t *testing.T) {
			faulty(t, Fault{Stream: &StreamFault{After: 3, How: tt.how}}, func(t *testing.T, r *running) {
				ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
				defer cancel()
				events, err := r.stream(ctx, "/v1/completions", completion("a", 10))
				if (err == nil) != tt.complete {
					t.Errorf("the body ended with %v", err)
				}
				tokens := 0
				for _, e := range events {
					if strings.Contains(e.data, `"text":`) {
						tokens++
					}
				}
				if tokens != 3 || !strings.Contains(events[len(events)-1].data, tt.last) {
					t.Errorf("%d tokens, events %v", tokens, events)
				}
				if tt.how == "error" && !strings.HasPrefix(events[3].data, `{"error":{"message":"EngineCore`) {
					t.Errorf("error event %s", events[3].data)
				}
				synctest.Wait()
				r.wantOutcome(tt.outcome)
				if tt.how == "crash" {
					r.wantExit(1)
				}
			})
		})
	}
}

func TestFaultBeforeTheFirstByte(t *testing.T) {
	faulty(t, Fault{Stream: &StreamFault{How: "reset"}}, func(t *testing.T, r *running) {
		if resp, err := r.do(t.Context(), "POST", "/v1/completions", completion("a", 10)); err == nil {
			t.Errorf("answered %s", resp.Status)
		}
		r.wantOutcome(Broken)
	})
	faulty(t, Fault{Stream: &StreamFault{How: "error"}}, func(t *testing.T, r *running) {
		if status, body := r.call("POST", "/v1/completions", completion("a", 10)); status != 500 || !strings.Contains(body, `"type":"InternalServerError"`) {
			t.Errorf("%d %s", status, body)
		}
	})
}

func TestHang(t *testing.T) {
	faulty(t, Fault{Hang: true}, func(t *testing.T, r *running) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		if _, err := r.do(ctx, "POST", "/v1/completions", completion("a", 1)); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a hanging engine answered: %v", err)
		}
		if status, _ := r.call("GET", "/health", ""); status != 200 {
			t.Errorf("health is %d; vLLM's does not see a hang", status)
		}
	})
	faulty(t, Fault{HangHealth: true}, func(t *testing.T, r *running) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		if _, err := r.do(ctx, "GET", "/health", ""); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("health answered: %v", err)
		}
	})
}

func TestRefusalsAndBodies(t *testing.T) {
	faulty(t, Fault{Admission503: true, FlatErrors: true, Health: 418}, func(t *testing.T, r *running) {
		status, body := r.call("POST", "/v1/completions", completion("a", 1))
		if status != 503 || !strings.HasPrefix(body, `{"object":"error","message":`) || !strings.Contains(body, `"code":503`) {
			t.Errorf("%d %s", status, body)
		}
		r.wantOutcome(Refused)
		if status, _ := r.call("GET", "/health", ""); status != 418 {
			t.Errorf("health is %d", status)
		}
	})
}

func TestGzip(t *testing.T) {
	for _, how := range []string{"real", "label"} {
		faulty(t, Fault{Gzip: how}, func(t *testing.T, r *running) {
			resp, err := r.do(t.Context(), "POST", "/v1/completions", completion("a", 2))
			if err != nil {
				t.Fatal(err)
			}
			defer resp.Body.Close()
			if got := resp.Header.Get("Content-Encoding"); got != "gzip" {
				t.Errorf("labelled %q", got)
			}
			body := io.Reader(resp.Body)
			if how == "real" {
				if body, err = gzip.NewReader(resp.Body); err != nil {
					t.Fatal(err)
				}
			}
			if b, err := io.ReadAll(body); err != nil || !strings.HasSuffix(string(b), "data: [DONE]\n\n") {
				t.Errorf("%s: %q, %v", how, b, err)
			}
		})
	}
}

func TestFaultsAtRunTime(t *testing.T) {
	faulty(t, Fault{}, func(t *testing.T, r *running) {
		for _, bad := range []string{`{"hangs":true}`, `{"stream":{"how":"explode"}}`, `{"fork_child":"1s"}`, `{} {}`, `no`} {
			if status, body := r.call("POST", "/sim/fault", bad); status != 400 {
				t.Errorf("%s: %d %s, want 400", bad, status, body)
			}
		}
		if status, body := r.call("POST", "/sim/fault", `{"health":500}`); status != 200 {
			t.Errorf("%d %s", status, body)
		}
		if status, _ := r.call("GET", "/health", ""); status != 500 {
			t.Errorf("health is %d under the fault", status)
		}
		r.call("POST", "/sim/fault", `{}`)
		if status, _ := r.call("GET", "/health", ""); status != 200 {
			t.Errorf("health is %d when healed", status)
		}
		r.call("POST", "/sim/fault", `{"crash_after":"1s"}`)
		r.call("POST", "/sim/fault", `{"crash_after_requests":2}`)
		time.Sleep(time.Hour) // the timer has gone with its fault
		r.call("POST", "/v1/completions", completion("a", 1))
		r.call("POST", "/sim/fault", `{"crash_after_requests":2}`) // counts anew
		r.call("POST", "/v1/completions", completion("a", 1))
		r.call("POST", "/sim/fault", `{"crash_after":"1s","crash_code":3}`)
		time.Sleep(999 * time.Millisecond)
		r.call("GET", "/health", "")
		r.wantExit(3)
	})
}

func TestFaultRouteIsOffByDefault(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, newNet(), Config{})
		<-r.Ready()
		if status, _ := r.call("POST", "/sim/fault", `{"hang":true}`); status != 404 {
			t.Errorf("the fault route answers %d", status)
		}
	})
}

func TestLoadFaults(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		r := start(t, newNet(), Config{LoadTime: time.Minute, Fault: Fault{FailLoadAfter: Duration(25 * time.Second)}})
		r.wantExit(1)
		if got := time.Since(began); got != 25*time.Second {
			t.Errorf("the load failed after %v", got)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		r := start(t, newNet(), Config{LoadTime: time.Minute, Fault: Fault{StallLoadAfter: Duration(time.Second)}})
		time.Sleep(time.Hour)
		select {
		case <-r.Ready():
			t.Error("a stalled load became ready")
		case <-r.done:
			t.Errorf("a stalled load ended: %v", r.err)
		default:
		}
		r.Terminate()
		if err := r.exit(); err != nil {
			t.Errorf("SIGTERM while loading: %v", err)
		}
	})
}
