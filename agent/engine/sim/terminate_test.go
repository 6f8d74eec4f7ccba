package sim

import (
	"context"
	"errors"
	"fmt"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// result is a stream's end, seen from another goroutine.
type result struct {
	events []event
	err    error
}

func (r *running) background(body string) <-chan result {
	out := make(chan result, 1)
	go func() {
		events, err := r.stream(r.t.Context(), "/v1/completions", body)
		out <- result{events, err}
	}()
	synctest.Wait()
	return out
}

func terminating(t *testing.T, cfg Config, test func(t *testing.T, r *running)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		cfg.TTFT, cfg.TokensPerSecond = paced.TTFT, paced.TokensPerSecond
		r := start(t, newNet(), cfg)
		<-r.Ready()
		test(t, r)
	})
}

func TestTerminateAbortsByDefault(t *testing.T) {
	terminating(t, Config{}, func(t *testing.T, r *running) {
		res := r.background(completion("a", 100))
		time.Sleep(time.Second)
		began := time.Now()
		r.Terminate()
		if err := r.exit(); err != nil || time.Since(began) != 0 {
			t.Errorf("Run returned %v after %v, want nil at once", err, time.Since(began))
		}
		if got := <-res; got.err == nil || len(got.events) == 0 {
			t.Errorf("the stream ended well: %v", got)
		}
		r.wantOutcome(Aborted)
		after := httptest.NewRecorder() // there is no port any more
		r.ServeHTTP(after, httptest.NewRequest("GET", "/metrics", nil))
		if want := `vllm:http_requests_client_disconnected_total{engine="0",model_name="m"} 0`; !strings.Contains(after.Body.String(), want) {
			t.Errorf("the engine's own end counts as a client's: %s", after.Body)
		}
	})
}

func TestTerminateDrains(t *testing.T) {
	terminating(t, Config{ShutdownTimeout: time.Minute}, func(t *testing.T, r *running) {
		res := r.background(completion("a", 21)) // 2.1 s
		began := time.Now()
		r.Terminate()
		synctest.Wait()
		if status, body := r.call("POST", "/v1/completions", completion("b", 1)); status != 503 {
			t.Errorf("while draining: %d %s, want 503", status, body)
		}
		if err := r.exit(); err != nil {
			t.Error(err)
		}
		if got := time.Since(began); got != 2100*time.Millisecond {
			t.Errorf("drained in %v, want 2.1s", got)
		}
		if got := <-res; got.err != nil || got.events[len(got.events)-1].data != "[DONE]" {
			t.Errorf("the running stream was not served to its end: %v", got)
		}
	})
}

func TestDrainHasALimit(t *testing.T) {
	terminating(t, Config{ShutdownTimeout: time.Second}, func(t *testing.T, r *running) {
		res := r.background(completion("a", 100))
		began := time.Now()
		r.Terminate()
		if err := r.exit(); err != nil || time.Since(began) != time.Second {
			t.Errorf("Run returned %v after %v, want nil after 1s", err, time.Since(began))
		}
		if got := <-res; got.err == nil {
			t.Error("the stream ended well")
		}
	})
}

func TestSlowDrain(t *testing.T) {
	terminating(t, Config{Fault: Fault{SlowDrain: Duration(time.Minute)}}, func(t *testing.T, r *running) {
		began := time.Now()
		r.Terminate()
		if err := r.exit(); err != nil || time.Since(began) != time.Minute {
			t.Errorf("Run returned %v after %v, want nil after 1m", err, time.Since(began))
		}
	})
}

func TestKillIgnoresNothing(t *testing.T) {
	terminating(t, Config{Fault: Fault{IgnoreTerm: true}, ShutdownTimeout: time.Hour}, func(t *testing.T, r *running) {
		res := r.background(completion("a", 100))
		r.Terminate()
		time.Sleep(time.Second)
		select {
		case <-r.done:
			t.Fatalf("SIGTERM was not ignored: %v", r.err)
		default:
		}
		r.kill()
		if err := r.exit(); !errors.Is(err, context.Canceled) || ExitCode(err) != 137 {
			t.Errorf("Run returned %v, exit code %d; want its context's error and 137", err, ExitCode(err))
		}
		if got := <-res; got.err == nil {
			t.Error("the stream ended well")
		}
	})
}

func TestKillWhileDraining(t *testing.T) {
	terminating(t, Config{ShutdownTimeout: time.Hour}, func(t *testing.T, r *running) {
		r.background(completion("a", 1000))
		r.Terminate()
		time.Sleep(time.Second)
		began := time.Now()
		r.kill()
		r.exit()
		if got := time.Since(began); got != 0 {
			t.Errorf("the engine outlived its kill by %v", got)
		}
	})
}

// A client that takes nothing keeps its request in a write, which no context ends.
func TestKillWhileDrainingAStalledClient(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNet()
		r := start(t, n, Config{ShutdownTimeout: time.Hour, MaxModelLen: 1 << 30})
		<-r.Ready()
		c, err := n.Dial(t.Context(), r.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		body := completion("a", 1<<20)
		fmt.Fprintf(c, "POST /v1/completions HTTP/1.1\r\nHost: sim\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
		synctest.Wait()
		r.wantOutcome(Running)
		r.Terminate()
		time.Sleep(time.Second)
		began := time.Now()
		r.kill()
		r.exit()
		if got := time.Since(began); got != 0 {
			t.Errorf("the engine outlived its kill by %v", got)
		}
	})
}

func TestRunsOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, newNet(), Config{})
		<-r.Ready()
		if err := r.Run(t.Context()); err == nil || !strings.Contains(err.Error(), "once") {
			t.Errorf("a second Run returned %v", err)
		}
	})
}

func TestPortInUse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNet()
		<-start(t, n, Config{}).Ready()
		r := start(t, n, Config{})
		if err := r.exit(); err == nil || !strings.Contains(err.Error(), "127.0.0.1:8000") {
			t.Errorf("Run returned %v, want an error that names the address", err)
		}
	})
}
