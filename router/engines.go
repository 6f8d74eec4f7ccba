package router

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"strconv"
	"sync"
	"time"

	"berth/fleet/wire"
)

// Engines say in their metrics how many requests wait in them, whichever router sent them. Routers share nothing, so that is
// how one learns what the others do. Doors pass GET /metrics and do not count it as use.
const (
	// EngineLook is how often engines are asked.
	EngineLook = time.Second

	engineLookWait = 500 * time.Millisecond // the number is of no use later
	engineLookMany = 16                     // at once
	maxMetrics     = 1 << 20                // bytes of an engine's answer
)

// waitingNames are the metrics that count requests which wait for their computing: vLLM's, SGLang's and llama.cpp's.
var waitingNames = [...]string{"vllm:num_requests_waiting", "sglang:num_queue_reqs", "llamacpp:requests_deferred"}

// askEngines asks the engines whose queues matter now.
func (r *Router) askEngines(ctx context.Context) error {
	list := r.pool.Asked()
	if len(list) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, engineLookWait)
	defer cancel()
	waiting := make(map[string]int, len(list))
	var mu sync.Mutex
	var wg sync.WaitGroup
	slots := make(chan struct{}, engineLookMany)
	for i := range list {
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			if n, ok := r.askEngine(ctx, &list[i]); ok {
				mu.Lock()
				defer mu.Unlock()
				waiting[list[i].Replica] = n
			}
		})
	}
	wg.Wait()
	r.pool.Tell(waiting)
	return nil
}

// askEngine asks one. An engine that does not answer, or has no such number, is chosen by what is known without it.
func (r *Router) askEngine(ctx context.Context, e *wire.Endpoint) (int, bool) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+e.Address+"/metrics", nil)
	if err != nil {
		return 0, false
	}
	req.Header.Set(wire.HeaderReplicaKey, e.Key)
	resp, err := r.transport.RoundTrip(req)
	if err != nil {
		return 0, false
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return 0, false
	}
	text, err := io.ReadAll(io.LimitReader(resp.Body, maxMetrics))
	if err != nil {
		return 0, false
	}
	return waitingIn(text)
}

// waitingIn finds the number in metrics in Prometheus' text form: the sum over an engine's parts. It looks for three names
// and reads nothing else, for an engine may have a thousand lines.
func waitingIn(text []byte) (n int, ok bool) {
	for _, name := range waitingNames {
		for rest := text; ; {
			at := bytes.Index(rest, []byte(name))
			if at < 0 {
				break
			}
			first := at == 0 || rest[at-1] == '\n'
			line, after, _ := bytes.Cut(rest[at+len(name):], []byte("\n"))
			rest = after
			if !first || len(line) == 0 || line[0] != '{' && line[0] != ' ' {
				continue // a comment, or a longer name
			}
			if line[0] == '{' {
				line = line[bytes.LastIndexByte(line, '}')+1:]
			}
			fields := bytes.Fields(line)
			if len(fields) == 0 {
				continue
			}
			if v, err := strconv.ParseFloat(string(fields[0]), 64); err == nil && v >= 0 && v < 1e6 {
				n, ok = n+int(v), true
			}
		}
	}
	return n, ok
}
