package sim

import (
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// metrics are vLLM's, by its names and labels (model_name, engine), in a registry
// of the engine's own.
type metrics struct {
	registry *prometheus.Registry

	prefixQueries, prefixHits     prometheus.Counter // tokens
	promptTokens, generatedTokens prometheus.Counter
	disconnected, rejected        prometheus.Counter
	finished                      *prometheus.CounterVec
	firstToken, endToEnd          prometheus.Histogram
	queueTime, prefill, decode    prometheus.Histogram
	interToken, perToken          prometheus.Histogram
}

// Bucket bounds in seconds, after vLLM's.
var (
	bucketsFirst = []float64{0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10, 20, 40, 80, 160}
	bucketsToken = []float64{0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1, 2.5, 5}
	bucketsWhole = []float64{0.3, 0.5, 0.8, 1, 1.5, 2, 2.5, 5, 10, 15, 20, 30, 40, 50, 60, 120, 240, 480, 960}
)

func newMetrics(c Config, s *slots) *metrics {
	labels := prometheus.Labels{"model_name": c.ServedNames[0], "engine": "0"}
	m := &metrics{registry: prometheus.NewRegistry()}
	counter := func(name, help string) prometheus.Counter {
		return register(m, prometheus.NewCounter(prometheus.CounterOpts{Name: "vllm:" + name, Help: help, ConstLabels: labels}))
	}
	histogram := func(name, help string, buckets []float64) prometheus.Histogram {
		return register(m, prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "vllm:" + name, Help: help, ConstLabels: labels, Buckets: buckets}))
	}
	m.prefixQueries = counter("prefix_cache_queries_total", "Prompt tokens looked up in the prefix cache.")
	m.prefixHits = counter("prefix_cache_hits_total", "Prompt tokens found in the prefix cache.")
	m.promptTokens = counter("prompt_tokens_total", "Prompt tokens processed.")
	m.generatedTokens = counter("generation_tokens_total", "Tokens generated.")
	counter("num_preemptions_total", "Preemptions; the simulated engine has none.")
	m.disconnected = counter("http_requests_client_disconnected_total", "Requests whose client went away.")
	m.rejected = counter("admission_rejections", "Requests refused because the queue is full.")
	m.finished = register(m, prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "vllm:request_success_total", Help: "Requests by the way they finished.", ConstLabels: labels}, []string{"finished_reason"}))
	for _, reason := range []string{"stop", "length", "abort"} {
		m.finished.WithLabelValues(reason)
	}
	m.firstToken = histogram("time_to_first_token_seconds", "Arrival to first token.", bucketsFirst)
	m.interToken = histogram("inter_token_latency_seconds", "Between two tokens.", bucketsToken)
	m.perToken = histogram("request_time_per_output_token_seconds", "Mean time of a request's tokens after the first.", bucketsToken)
	m.endToEnd = histogram("e2e_request_latency_seconds", "Arrival to last token.", bucketsWhole)
	m.queueTime = histogram("request_queue_time_seconds", "Waiting for a slot.", bucketsWhole)
	m.prefill = histogram("request_prefill_time_seconds", "Slot to first token.", bucketsWhole)
	m.decode = histogram("request_decode_time_seconds", "First to last token.", bucketsWhole)
	m.gauges(c, s, labels)
	return m
}

func (m *metrics) gauges(c Config, s *slots, labels prometheus.Labels) {
	gauge := func(name, help string, read func() float64) {
		register(m, prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "vllm:" + name, Help: help, ConstLabels: labels}, read))
	}
	gauge("num_requests_running", "Requests that hold a slot.", func() float64 { n, _, _ := s.counts(); return float64(n) })
	gauge("num_requests_waiting", "Requests that wait for one.", func() float64 { _, n, _ := s.counts(); return float64(n) })
	gauge("kv_cache_usage_perc", "Share of the cache held by running requests, 0 to 1.", func() float64 {
		_, _, n := s.counts()
		return min(1, float64(n)/float64(c.CacheBlocks))
	})
	info := register(m, prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "vllm:cache_config_info", Help: "The cache's configuration.", ConstLabels: labels}, []string{"block_size", "num_gpu_blocks"}))
	info.WithLabelValues(strconv.Itoa(BlockSize), strconv.Itoa(c.CacheBlocks)).Set(1)
}

// register adds c to the registry. The names are fixed, so a clash is a
// programming error.
func register[C prometheus.Collector](m *metrics, c C) C {
	m.registry.MustRegister(c)
	return c
}

// observe books a finished piece of work.
func (m *metrics) observe(w *work, reason string, end time.Time) {
	m.finished.WithLabelValues(reason).Inc()
	if w.firstToken.IsZero() {
		return
	}
	m.endToEnd.Observe(end.Sub(w.arrived).Seconds())
	decode := end.Sub(w.firstToken)
	m.decode.Observe(decode.Seconds())
	if w.made > 1 {
		m.perToken.Observe(decode.Seconds() / float64(w.made-1))
	}
}
