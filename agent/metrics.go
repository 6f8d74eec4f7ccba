package agent

import (
	"github.com/prometheus/client_golang/prometheus"
)

// meter is what the agent counts for /metrics.
type meter struct {
	beats   *prometheus.CounterVec
	reports *prometheus.CounterVec
	orders  prometheus.Gauge
	ignored prometheus.Counter
	starts  *prometheus.CounterVec
}

func newMeter(r *prometheus.Registry) *meter {
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: "berth", Subsystem: "agent", Name: name, Help: help}, labels)
	}
	m := &meter{
		beats:   counter("heartbeats_total", "Heartbeats sent, by result.", "result"),
		reports: counter("transitions_total", "Transitions reported, by what became of them.", "result"),
		starts:  counter("shim_starts_total", "Shims started, by result.", "result"),
		orders: prometheus.NewGauge(prometheus.GaugeOpts{Namespace: "berth", Subsystem: "agent", Name: "orders_index",
			Help: "Log index of the newest list of orders taken, within its epoch."}),
		ignored: prometheus.NewCounter(prometheus.CounterOpts{Namespace: "berth", Subsystem: "agent", Name: "orders_ignored_total",
			Help: "Lists of orders ignored because they were older than one seen."}),
	}
	r.MustRegister(m.beats, m.reports, m.starts, m.orders, m.ignored)
	return m
}

// shards describes what runs, at each scrape.
type shards struct {
	crew *crew
	desc *prometheus.Desc
}

func newShards(c *crew) shards {
	return shards{crew: c, desc: prometheus.NewDesc("berth_agent_shards", "Shards on this node, by phase of their shim.", []string{"phase"}, nil)}
}

// Describe implements [prometheus.Collector].
func (s shards) Describe(ch chan<- *prometheus.Desc) { ch <- s.desc }

// Collect implements [prometheus.Collector].
func (s shards) Collect(ch chan<- prometheus.Metric) {
	n := map[string]int{}
	for _, v := range s.crew.views() {
		n[v.phase()]++
	}
	for phase, count := range n {
		ch <- prometheus.MustNewConstMetric(s.desc, prometheus.GaugeValue, float64(count), phase)
	}
}
