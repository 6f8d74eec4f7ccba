package router

import (
	"context"
	"fmt"
	"net/http"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"berth/router/pool"
)

func TestWaitingInMetrics(t *testing.T) {
	for text, want := range map[string]int{
		"# HELP vllm:num_requests_waiting Waiting.\n# TYPE vllm:num_requests_waiting gauge\nvllm:num_requests_waiting{engine=\"0\",model_name=\"a}b\"} 3.0\nvllm:num_requests_waiting{engine=\"1\"} 2\nvllm:num_requests_waiting_by_reason{reason=\"x\"} 9\n": 5,
		"sglang:num_queue_reqs{model_name=\"m\"} 0.0\n":                   0,
		"llamacpp:requests_processing 4\nllamacpp:requests_deferred 7":    7,
		"vllm:num_requests_running 4\n":                                   -1,
		"my_vllm:num_requests_waiting 4\n":                                -1,
		"vllm:num_requests_waiting NaN\nvllm:num_requests_waiting{} -1\n": -1,
		"": -1,
	} {
		n, ok := waitingIn([]byte(text))
		if !ok {
			n = -1
		}
		if n != want {
			t.Errorf("%q: %d, want %d", text, n, want)
		}
	}
}

// TestOthersQueuesAreSeen: an engine in which requests of other routers wait gets nothing while another one is free, and no
// engine is asked when nobody asks for the model.
func TestOthersQueuesAreSeen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, func(c *Config) { c.Look = time.Second })
		var asked, chosen atomic.Int64
		var waiting atomic.Int64
		waiting.Store(3000)
		busy := func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/metrics" {
				asked.Add(1)
				if r.Header.Get("Berth-Replica-Key") != "key-a" {
					t.Error("the door is not shown the key")
				}
				fmt.Fprintf(w, "vllm:num_requests_waiting %d\n", waiting.Load())
				return
			}
			chosen.Add(1)
			ok("a")(w, r)
		}
		c.set(model("m", c.engine("a", "10.0.0.1", busy), c.engine("b", "10.0.0.2", ok("b"))))
		time.Sleep(time.Minute)
		if asked.Load() != 0 {
			t.Errorf("asked %d times for a model that nobody wants", asked.Load())
		}
		for range 20 {
			c.post(chatPath, chatBody)
		}
		if n := chosen.Load(); n < 5 {
			t.Errorf("%d of 20 before anything is known of its queue", n)
		}
		time.Sleep(2 * time.Second)
		chosen.Store(0)
		for range 20 {
			c.post(chatPath, chatBody)
		}
		if n := chosen.Load(); n != 0 || asked.Load() == 0 {
			t.Errorf("%d of 20 where 3000 of others wait", n)
		}
		waiting.Store(0)
		time.Sleep(2 * time.Second)
		for range 20 {
			c.post(chatPath, chatBody)
		}
		if n := chosen.Load(); n < 5 {
			t.Errorf("%d of 20 when they are gone", n)
		}
		time.Sleep(time.Minute)
		before := asked.Load()
		time.Sleep(time.Minute)
		if n := asked.Load() - before; n != 0 {
			t.Errorf("asked %d times in a quiet minute", n)
		}
		_, release, err := c.router.Acquire(context.Background(), "m", nil)
		if err != nil {
			t.Fatal(err)
		}
		release(pool.Served)
	})
}
