package sim

import (
	"context"
	"errors"
	"fmt"
	"net/http/httptest"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

// paced is an engine with round numbers: 100 ms to the first token of a cached
// prompt, 1 ms for each uncached prompt token, 10 tokens a second.
var paced = Config{TTFT: 100 * time.Millisecond, PrefillRate: 1000, TokensPerSecond: 10}

// prompt has exactly n tokens and is like no prompt with another seed.
func prompt(seed, n int) string {
	p := fmt.Sprintf("%04d", seed)
	return p + strings.Repeat(" abc", n-1)
}

func completion(p string, tokens int) string {
	return fmt.Sprintf(`{"model":"m","prompt":%q,"max_tokens":%d,"stream":true,"ignore_eos":true,"stream_options":{"include_usage":true}}`, p, tokens)
}

func TestLoadingRefuses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, newNet(), Config{LoadTime: time.Minute})
		time.Sleep(time.Minute - time.Millisecond)
		if _, err := r.do(t.Context(), "GET", "/health", ""); !errors.Is(err, syscall.ECONNREFUSED) {
			t.Fatalf("while loading: %v, want a refused connection", err)
		}
		time.Sleep(time.Millisecond)
		<-r.Ready()
		if status, body := r.call("GET", "/health", ""); status != 200 || body != "" {
			t.Fatalf("health is %d %q, want 200 and nothing", status, body)
		}
	})
}

func TestLoading503(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, newNet(), Config{LoadTime: time.Minute, Loading: Loading503})
		synctest.Wait()
		for _, path := range []string{"/health", "/v1/models"} {
			if status, _ := r.call("GET", path, ""); status != 503 {
				t.Errorf("%s is %d while loading, want 503", path, status)
			}
		}
		<-r.Ready()
		if status, _ := r.call("GET", "/health", ""); status != 200 {
			t.Errorf("health is %d when loaded", status)
		}
	})
}

func TestPaceOfAStream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, newNet(), paced)
		<-r.Ready()
		events, err := r.stream(t.Context(), "/v1/completions", completion(prompt(1, 50), 4))
		if err != nil {
			t.Fatal(err)
		}
		var at []time.Duration
		for _, e := range events {
			at = append(at, e.at)
		}
		// 100 ms + 50 tokens at 1 ms; then a token each 100 ms; finish, usage and [DONE] with the last.
		want := "[150ms 250ms 350ms 450ms 450ms 450ms 450ms]"
		if got := fmt.Sprint(at); got != want {
			t.Errorf("events came at %s, want %s", got, want)
		}
		if last := events[len(events)-1].data; last != "[DONE]" {
			t.Errorf("last event %q", last)
		}
		if u := events[len(events)-2].data; !strings.Contains(u, `"choices":[],"usage":{"prompt_tokens":50,"total_tokens":54,"completion_tokens":4`) {
			t.Errorf("usage chunk %s", u)
		}
	})
}

func TestCachedPrefixIsFaster(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, newNet(), paced)
		<-r.Ready()
		first := func(p string) time.Duration {
			events, err := r.stream(t.Context(), "/v1/completions", completion(p, 1))
			if err != nil {
				t.Fatal(err)
			}
			return events[0].at
		}
		if got := first(prompt(1, 160)); got != 260*time.Millisecond {
			t.Errorf("cold: first token after %v, want 260ms", got)
		}
		// The last token is always computed, so 9 of the 10 blocks count.
		if got := first(prompt(1, 160)); got != 116*time.Millisecond {
			t.Errorf("warm: first token after %v, want 116ms", got)
		}
		if got := first(prompt(2, 160)); got != 260*time.Millisecond {
			t.Errorf("another prompt: first token after %v, want 260ms", got)
		}
		r.wantMetric("vllm:prefix_cache_queries_total", 480)
		r.wantMetric("vllm:prefix_cache_hits_total", 144)
		r.wantMetric("vllm:prompt_tokens_total", 480)
		r.wantMetric("vllm:generation_tokens_total", 3)
		if got := r.Requests()[1]; got.CachedTokens != 144 || got.PromptHash != PromptHash(prompt(1, 160)) {
			t.Errorf("recorded %+v", got)
		}
	})
}

func TestNextTurnOfAChatIsCached(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, newNet(), paced)
		<-r.Ready()
		ask := func(messages string) string {
			_, body := r.call("POST", "/v1/chat/completions", `{"messages":[`+messages+`],"max_tokens":40}`)
			_, answer, _ := strings.Cut(body, `"content":"`)
			answer, _, _ = strings.Cut(answer, `"`)
			return answer
		}
		turn := fmt.Sprintf(`{"role":"user","content":%q}`, prompt(1, 30))
		answer := ask(turn)
		ask(turn + fmt.Sprintf(`,{"role":"assistant","content":%q},{"role":"user","content":"and then?"}`, answer))
		both := r.Requests()
		whole := both[0].PromptTokens + both[0].CompletionTokens
		if got, want := both[1].CachedTokens, whole/BlockSize*BlockSize; got != want || both[0].CompletionTokens != 40 {
			t.Errorf("%d tokens of the next turn were cached, want %d (%+v)", got, want, both)
		}
	})
}

func TestQueueIsFirstInFirstOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := paced
		cfg.MaxNumSeqs, cfg.MaxQueued = 1, 2
		r := start(t, newNet(), cfg)
		<-r.Ready()
		order := make(chan int, 3)
		for i := range 3 {
			go func() {
				if _, err := r.stream(t.Context(), "/v1/completions", completion(prompt(i, 100), 9)); err != nil {
					t.Error(err)
				}
				order <- i
			}()
			synctest.Wait()
		}
		r.wantMetric("vllm:num_requests_running", 1)
		r.wantMetric("vllm:num_requests_waiting", 2)
		r.wantMetric("vllm:kv_cache_usage_perc", 7./4096)
		if status, body := r.call("POST", "/v1/completions", completion(prompt(9, 10), 1)); status != 503 {
			t.Errorf("beyond the queue: %d %s, want 503", status, body)
		}
		r.wantMetric("vllm:admission_rejections", 1)
		began := time.Now()
		for want := range 3 {
			if got := <-order; got != want {
				t.Errorf("request %d came out in place %d", got, want)
			}
			if got, want := time.Since(began), time.Duration(want+1)*time.Second; got != want {
				t.Errorf("it came out after %v, want %v", got, want)
			}
		}
		r.wantMetric("vllm:num_requests_running", 0)
		r.wantMetric("vllm:kv_cache_usage_perc", 0)
		r.wantMetric(`vllm:request_success_total{engine="0",finished_reason="length",model_name="m"}`, 3)
	})
}

func TestDisconnectAborts(t *testing.T) {
	for _, stream := range []string{"true", "false"} {
		synctest.Test(t, func(t *testing.T) {
			cfg := paced
			cfg.MaxNumSeqs = 1
			r := start(t, newNet(), cfg)
			<-r.Ready()
			body := strings.Replace(completion(prompt(1, 100), 1000), `"stream":true`, `"stream":`+stream, 1)
			for _, wait := range []time.Duration{3 * time.Second, time.Second} { // running, then waiting behind another
				ctx, cancel := context.WithTimeout(t.Context(), wait)
				_, err := r.stream(ctx, "/v1/completions", body)
				cancel()
				if !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("stream %s ended with %v", stream, err)
				}
				synctest.Wait()
				r.wantOutcome(Aborted)
				r.wantMetric("vllm:num_requests_running", 0)
				r.wantMetric("vllm:num_requests_waiting", 0)
			}
			r.wantMetric("vllm:http_requests_client_disconnected_total", 2)
			r.wantMetric(`vllm:request_success_total{engine="0",finished_reason="abort",model_name="m"}`, 2)
		})
	}
}

func TestWaitingClientLeavesTheQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := paced
		cfg.MaxNumSeqs = 1
		r := start(t, newNet(), cfg)
		<-r.Ready()
		done := make(chan error, 1)
		go func() {
			_, err := r.stream(t.Context(), "/v1/completions", completion(prompt(1, 100), 50))
			done <- err
		}()
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := r.stream(ctx, "/v1/completions", completion(prompt(2, 100), 50)); !errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
		synctest.Wait()
		r.wantMetric("vllm:num_requests_running", 1)
		r.wantMetric("vllm:num_requests_waiting", 0)
		r.wantMetric(`vllm:request_success_total{engine="0",finished_reason="abort",model_name="m"}`, 1)
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

// Routers take care of this: the headers are out long before the first token.
func TestHeadersComeAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, newNet(), paced)
		<-r.Ready()
		began := time.Now()
		resp, err := r.do(t.Context(), "POST", "/v1/completions", completion(prompt(1, 500), 1))
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if got := time.Since(began); resp.StatusCode != 200 || got != 0 {
			t.Errorf("%s after %v, want 200 at once", resp.Status, got)
		}
	})
}

// A token that is late does not make those after it late.
func TestPaceDoesNotDrift(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, err := New(Config{Model: "m", TokensPerSecond: 10})
		if err != nil {
			t.Fatal(err)
		}
		c := &call{Engine: e, r: httptest.NewRequest("POST", "/v1/completions", nil), rec: e.ledger.arrive("/v1/completions", "")}
		w := &work{prompt: Tokenize("x"), limit: 11, natural: 11, arrived: time.Now()}
		leave, err := c.enqueue(w)
		if err != nil {
			t.Fatal(err)
		}
		defer leave()
		began := time.Now()
		reason, err := c.generate(w, func(string) error { time.Sleep(60 * time.Millisecond); return nil })
		if got, want := time.Since(began), 1060*time.Millisecond; reason != "stop" || err != nil || got != want {
			t.Errorf("%q, %v after %v, want stop after %v", reason, err, got, want)
		}
	})
}
