package ops

import (
	"context"
	"errors"
	"net/http"
	"runtime"
	"runtime/debug"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// Build identifies the program, for berth_build_info and for logs.
type Build struct {
	Role     string // "peer", "agent", …
	Version  string // "1.2.0"; "" means unknown
	Revision string // of the source; "" is filled from the binary's build information where it has it
}

// Ops is the operator's side of one process. Registry and the handler are safe for concurrent use, as is adding checks.
type Ops struct {
	registry *prometheus.Registry

	mu    sync.Mutex
	live  []check
	ready []check
}

// New makes the operator's side with the Go runtime's and the process's own metrics. In a process that holds several
// roles (a whole cluster for development) each has its own.
func New(b Build) *Ops {
	o := &Ops{registry: prometheus.NewRegistry()}
	o.registry.MustRegister(
		collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
		buildInfo(b),
	)
	return o
}

// Registry takes the metrics of the process's parts.
func (o *Ops) Registry() *prometheus.Registry { return o.registry }

// Live adds a check to /livez: what, when it fails, only a restart of the process can mend.
func (o *Ops) Live(name string, fn CheckFunc) { o.add(&o.live, check{name, fn}) }

// Ready adds a check to /readyz: what must hold for the process to be sent work.
func (o *Ops) Ready(name string, fn CheckFunc) { o.add(&o.ready, check{name, fn}) }

func (o *Ops) add(to *[]check, c check) {
	o.mu.Lock()
	defer o.mu.Unlock()
	*to = append(*to, c)
}

// Handler serves GET and HEAD of /livez, /readyz and /metrics, and 404 for all else.
func (o *Ops) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /livez", o.health(&o.live))
	mux.Handle("GET /readyz", o.health(&o.ready))
	mux.Handle("GET /metrics", promhttp.HandlerFor(o.registry, promhttp.HandlerOpts{
		Registry:          o.registry,
		EnableOpenMetrics: true,
		ErrorHandling:     promhttp.ContinueOnError, // one broken collector must not hide the rest
		Timeout:           10 * time.Second,         // Prometheus' own default for a scrape
	}))
	return mux
}

func buildInfo(b Build) prometheus.Collector {
	if b.Version == "" {
		b.Version = "unknown"
	}
	if b.Revision == "" {
		b.Revision = revision()
	}
	g := prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "berth_build_info",
		Help: "Always 1; its labels say which program this is.",
		ConstLabels: prometheus.Labels{
			"role": b.Role, "version": b.Version, "revision": b.Revision, "goversion": runtime.Version(),
		},
	})
	g.Set(1)
	return g
}

func revision() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" {
			return s.Value
		}
	}
	return "unknown"
}

// ErrNotYet is for checks of parts that are still starting and have nothing more to say.
var ErrNotYet = errors.New("still starting")

// CheckFunc tells whether a part is well: nil, or an error that says what is wrong. It must heed its context.
type CheckFunc func(context.Context) error

type check struct {
	name string
	fn   CheckFunc
}
