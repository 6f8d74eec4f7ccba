package router

import (
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"berth/router/pool"
)

// metrics are what the router counts. Labels are bounded: routes and reasons of this program, models of the table; never
// a request's id, a client or what it asks.
type metrics struct {
	requests *prometheus.CounterVec
	seconds  *prometheus.HistogramVec
	first    prometheus.Histogram
	active   prometheus.Gauge
	retries  *prometheus.CounterVec
	refusals *prometheus.CounterVec
	reports  *prometheus.CounterVec
	hung     prometheus.Counter
	denials  *prometheus.CounterVec
}

func newMetrics(reg prometheus.Registerer, p *pool.Pool, table func() tableState) *metrics {
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: "berth_router_" + name, Help: help}, labels)
	}
	m := &metrics{
		requests: counter("requests_total", "Requests of clients on routes that go to engines, by route and by how their answer ended.", "route", "outcome"),
		seconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "berth_router_request_duration_seconds",
			Help: "Time from a request's headers to the end of its answer.", Buckets: []float64{.01, .1, .5, 1, 5, 15, 60, 300, 1200}}, []string{"route"}),
		first: prometheus.NewHistogram(prometheus.HistogramOpts{Name: "berth_router_response_headers_seconds",
			Help: "Time from a request's headers to those of a good answer, waiting included.", Buckets: []float64{.005, .02, .1, .3, 1, 3, 10, 60, 300}}),
		active:   prometheus.NewGauge(prometheus.GaugeOpts{Name: "berth_router_requests_active", Help: "Requests of clients that are being read, wait, or are being answered."}),
		retries:  counter("retries_total", "Requests sent to another replica after one had failed them, by reason.", "reason"),
		refusals: counter("door_refusals_total", "Refusals by the doors of replicas, by reason.", "reason"),
		hung:     prometheus.NewCounter(prometheus.CounterOpts{Name: "berth_router_replicas_hung_total", Help: "Times that a replica was set aside because its tokens did not move."}),
		denials:  counter("denials_total", "Requests beyond the limits of their key or their model, by the key's name.", "key"),
		reports:  counter("reports_total", "Reports of use, by result.", "result"),
	}
	reg.MustRegister(m.requests, m.seconds, m.first, m.active, m.retries, m.refusals, m.reports, m.hung, m.denials, &collector{pool: p, table: table, desc: newDescs()})
	return m
}

func (m *metrics) begin() { m.active.Inc() }

// outcome is the status class that a client saw, or how its answer ended instead.
type outcome int

const (
	fine outcome = iota
	clientError
	serverError
	broken
	clientGone
	outcomes
)

// String is the outcome's label.
func (o outcome) String() string {
	return [...]string{"ok", "4xx", "5xx", "broken", "client_gone"}[o]
}

// routeCount remembers a route's counters, so that they are looked up by their labels once and not at each request.
type routeCount struct {
	requests [outcomes]atomic.Pointer[prometheus.Counter]
	seconds  atomic.Pointer[prometheus.Observer]
}

func (m *metrics) end(r *route, o outcome, d time.Duration) {
	m.active.Dec()
	c := r.count.requests[o].Load()
	if c == nil {
		made := m.requests.WithLabelValues(r.path, o.String())
		c = &made
		r.count.requests[o].Store(c)
	}
	(*c).Inc()
	s := r.count.seconds.Load()
	if s == nil {
		made := m.seconds.WithLabelValues(r.path)
		s = &made
		r.count.seconds.Store(s)
	}
	(*s).Observe(d.Seconds())
}

func (m *metrics) firstByte(start time.Time) { m.first.Observe(time.Since(start).Seconds()) }

func (m *metrics) reported(err error) {
	result := "acknowledged"
	if err != nil {
		result = "failed"
	}
	m.reports.WithLabelValues(result).Inc()
}

// collector reads the pool and the table when it is asked, so that the data path keeps no second count.
type collector struct {
	pool  *pool.Pool
	table func() tableState
	desc  descs
}

type descs struct{ inFlight, waiting, usable, setAside, age, index, models *prometheus.Desc }

func newDescs() descs {
	d := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc("berth_router_"+name, help, labels, nil)
	}
	return descs{
		inFlight: d("requests_in_flight", "Requests that are with a replica of the model.", "model"),
		waiting:  d("requests_waiting", "Requests that wait for a replica of the model.", "model"),
		usable:   d("replicas_usable", "Replicas of the model in the table that are not set aside.", "model"),
		setAside: d("replicas_set_aside", "Replicas of the model in the table that are set aside because they failed.", "model"),
		age:      d("table_age_seconds", "Time since a peer last confirmed the routing table."),
		index:    d("table_index", "Index of the routing table, without its epoch."),
		models:   d("table_models", "Models in the routing table."),
	}
}

// Describe implements prometheus.Collector.
func (c *collector) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{c.desc.inFlight, c.desc.waiting, c.desc.usable, c.desc.setAside, c.desc.age, c.desc.index, c.desc.models} {
		ch <- d
	}
}

// Collect implements prometheus.Collector. Before the first table there is no age, and so no sample of one.
func (c *collector) Collect(ch chan<- prometheus.Metric) {
	gauge := func(d *prometheus.Desc, v float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
	}
	loads := c.pool.Loads()
	for _, l := range loads {
		gauge(c.desc.inFlight, float64(l.InFlight), l.Model)
		gauge(c.desc.waiting, float64(l.Waiting), l.Model)
		gauge(c.desc.usable, float64(l.Ready), l.Model)
		gauge(c.desc.setAside, float64(l.SetAside), l.Model)
	}
	if s := c.table(); s.Have {
		table, _ := c.pool.Table()
		gauge(c.desc.age, s.Age)
		gauge(c.desc.index, float64(s.Index.N))
		gauge(c.desc.models, float64(len(table.Models)))
	}
}
