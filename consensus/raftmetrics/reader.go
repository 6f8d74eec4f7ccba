// Package raftmetrics gives what raft, its log store and memberlist count to Prometheus. Those libraries write to one
// registry of the process (armon/go-metrics), without saying which peer speaks: the program's main function, which
// knows whether there is only one, installs the reader or turns the registry off. The package owns the names under
// which the figures appear, and must never know a peer.
package raftmetrics

import (
	"log/slog"
	"strings"
	"time"

	metrics "github.com/armon/go-metrics"
	"github.com/prometheus/client_golang/prometheus"
)

// Reader collects the figures listed in table.go; all others are dropped, so that a new release of a library cannot
// bring names against Prometheus' rules, or one series for each peer that ever was. It is a prometheus.Collector.
type Reader struct {
	counters   map[string]*prometheus.CounterVec
	gauges     map[string]prometheus.Gauge
	histograms map[string]scaled
}

// scaled is a histogram and what its samples are multiplied by to be in the base unit.
type scaled struct {
	vec   *prometheus.HistogramVec
	scale float64
}

// Install makes a reader the sink of the process's registry.
func Install() (*Reader, error) {
	r := newReader()
	_, err := metrics.NewGlobal(config(), r)
	return r, err
}

// Off drops the figures of a process that holds several peers, and says so: nobody could tell them apart.
func Off(log *slog.Logger) error {
	_, err := metrics.NewGlobal(config(), &metrics.BlackholeSink{})
	log.Info("this process holds several peers: the figures of the raft and gossip libraries are off")
	return err
}

// config makes timers count in seconds, and leaves out what client_golang's own collectors already tell.
func config() *metrics.Config {
	return &metrics.Config{TimerGranularity: time.Second, FilterDefault: true}
}

func newReader() *Reader {
	r := &Reader{counters: map[string]*prometheus.CounterVec{}, gauges: map[string]prometheus.Gauge{}, histograms: map[string]scaled{}}
	for _, f := range figures {
		var labels []string
		if f.peer {
			labels = []string{"remote"}
		}
		switch f.kind {
		case counter:
			r.counters[f.key] = prometheus.NewCounterVec(prometheus.CounterOpts{Name: f.name, Help: f.help}, labels)
		case gauge:
			r.gauges[f.key] = prometheus.NewGauge(prometheus.GaugeOpts{Name: f.name, Help: f.help})
		default:
			r.histograms[f.key] = scaled{prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: f.name, Help: f.help, Buckets: f.kind.buckets()}, labels), f.scale()}
		}
	}
	return r
}

// Describe implements prometheus.Collector.
func (r *Reader) Describe(ch chan<- *prometheus.Desc) {
	r.each(func(c prometheus.Collector) { c.Describe(ch) })
}

// Collect implements prometheus.Collector.
func (r *Reader) Collect(ch chan<- prometheus.Metric) {
	r.each(func(c prometheus.Collector) { c.Collect(ch) })
}

func (r *Reader) each(do func(prometheus.Collector)) {
	for _, c := range r.counters {
		do(c)
	}
	for _, g := range r.gauges {
		do(g)
	}
	for _, h := range r.histograms {
		do(h.vec)
	}
}

func join(key []string) string { return strings.Join(key, ".") }

// remote gives the label values: the peer that a figure is about, if the figure is about one.
func remote(labels []metrics.Label) []string {
	for _, l := range labels {
		if l.Name == "peer_id" {
			return []string{l.Value}
		}
	}
	return nil
}

// SetGauge implements metrics.MetricSink.
func (r *Reader) SetGauge(key []string, v float32) {
	if g, ok := r.gauges[join(key)]; ok {
		g.Set(float64(v))
	}
}

// SetGaugeWithLabels implements metrics.MetricSink.
func (r *Reader) SetGaugeWithLabels(key []string, v float32, _ []metrics.Label) { r.SetGauge(key, v) }

// EmitKey implements metrics.MetricSink; no library uses it.
func (r *Reader) EmitKey([]string, float32) {}

// IncrCounter implements metrics.MetricSink.
func (r *Reader) IncrCounter(key []string, v float32) { r.IncrCounterWithLabels(key, v, nil) }

// IncrCounterWithLabels implements metrics.MetricSink.
func (r *Reader) IncrCounterWithLabels(key []string, v float32, labels []metrics.Label) {
	if vec, ok := r.counters[join(key)]; ok && v >= 0 {
		if c, err := vec.GetMetricWithLabelValues(remote(labels)...); err == nil {
			c.Add(float64(v))
		}
	}
}

// AddSample implements metrics.MetricSink.
func (r *Reader) AddSample(key []string, v float32) { r.AddSampleWithLabels(key, v, nil) }

// AddSampleWithLabels implements metrics.MetricSink.
func (r *Reader) AddSampleWithLabels(key []string, v float32, labels []metrics.Label) {
	if h, ok := r.histograms[join(key)]; ok {
		if o, err := h.vec.GetMetricWithLabelValues(remote(labels)...); err == nil {
			o.Observe(float64(v) * h.scale)
		}
	}
}
