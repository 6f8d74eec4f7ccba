package sim

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// route is one path. Exactly one of plain and work is set.
type route struct {
	method string
	plain  http.HandlerFunc
	work   func(*call) error // recorded, refused while draining, subject to faults
}

func (e *Engine) routeTable() map[string]route {
	metrics := promhttp.HandlerFor(e.stats.registry, promhttp.HandlerOpts{})
	t := map[string]route{
		"/health":              {http.MethodGet, e.health, nil},
		"/version":             {http.MethodGet, e.version, nil},
		"/load":                {http.MethodGet, e.serverLoad, nil},
		"/metrics":             {http.MethodGet, metrics.ServeHTTP, nil},
		"/v1/models":           {http.MethodGet, e.models, nil},
		"/v1/chat/completions": {http.MethodPost, nil, chat},
		"/v1/completions":      {http.MethodPost, nil, complete},
		"/v1/embeddings":       {http.MethodPost, nil, embed},
		"/tokenize":            {http.MethodPost, nil, tokenize},
		"/detokenize":          {http.MethodPost, nil, detokenize},
		"/sim/requests":        {http.MethodGet, e.requests, nil},
	}
	if e.cfg.EnableFaults {
		t["/sim/fault"] = route{http.MethodPost, e.fault, nil}
	}
	return t
}

// call is one request on a route that does work.
type call struct {
	*Engine
	w       http.ResponseWriter
	r       *http.Request
	fault   Fault // as it was on arrival
	rec     *Record
	arrived time.Time
}

// ServeHTTP implements [http.Handler].
func (e *Engine) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	f := e.faults.get()
	w, done := mangle(w, f.Gzip)
	defer done()
	rt, ok := e.routes[r.URL.Path]
	switch {
	case !e.authorized(r):
		writeJSON(w, http.StatusUnauthorized, map[string]string{"error": "Unauthorized"}) // vLLM's own form
	case !ok:
		notFound("Not Found").write(w, f.FlatErrors)
	case rt.method != r.Method:
		w.Header().Set("Allow", rt.method)
		(&apiError{status: http.StatusMethodNotAllowed, kind: "BadRequestError", message: "Method Not Allowed"}).write(w, f.FlatErrors)
	case e.loading.Load():
		unavailable("The model is being loaded.").write(w, f.FlatErrors)
	case rt.plain != nil:
		rt.plain(w, r)
	case !e.work.enter():
		unavailable("The server is shutting down.").write(w, f.FlatErrors)
	default:
		defer e.work.leave()
		c := &call{Engine: e, w: w, r: r, fault: f, arrived: time.Now()}
		c.rec = e.ledger.arrive(r.URL.Path, r.Header.Get("X-Request-Id"))
		c.finish(c.run(rt.work))
	}
}

// authorized says whether r may pass: as in vLLM, the key guards what is below /v1.
func (e *Engine) authorized(r *http.Request) bool {
	return e.cfg.APIKey == "" || !strings.HasPrefix(r.URL.Path, "/v1") ||
		r.Header.Get("Authorization") == "Bearer "+e.cfg.APIKey
}

// run applies the faults that strike on arrival, then does the work.
func (c *call) run(work func(*call) error) error {
	if exit := c.faults.accept(); exit != nil {
		c.crash(exit)
		return errBroken
	}
	if c.fault.Hang {
		return c.hang()
	}
	if c.fault.Admission503 {
		c.stats.rejected.Inc()
		return unavailable("The server is overloaded.")
	}
	return work(c)
}

func (c *call) hang() error {
	<-c.r.Context().Done()
	return context.Cause(c.r.Context())
}

// strike applies the stream fault when an answer has made tokens.
func (c *call) strike(made int) error {
	s := c.fault.Stream
	if s == nil || s.After != made {
		return nil
	}
	switch s.How {
	case "hang":
		return c.hang()
	case "end":
		return errEndEarly
	case "error":
		return internal("EngineCore encountered an issue. See stack trace (above) for the root cause.")
	case "crash":
		c.crash(c.fault.crash("the stream fault"))
	case "reset":
		reset(c.r)
	}
	return errBroken
}

// finish writes what err still needs written, and the record's outcome.
func (c *call) finish(err error) {
	var refusal *apiError
	outcome, status := Served, http.StatusOK
	switch {
	case err == nil:
	case errors.As(err, &refusal):
		outcome, status = Refused, refusal.status
	case errors.Is(err, errBroken), errors.Is(err, errEndEarly):
		outcome, status = Broken, 0
	default: // the client's end, or ours
		outcome, status = Aborted, 0
		if c.life.Err() == nil {
			c.stats.disconnected.Inc()
		}
	}
	c.ledger.update(func() { c.rec.Outcome, c.rec.Status = outcome, status })
	switch {
	case refusal != nil:
		refusal.write(c.w, c.fault.FlatErrors)
	case err != nil && !errors.Is(err, errEndEarly):
		abandon()
	}
}

func (e *Engine) health(w http.ResponseWriter, r *http.Request) {
	f := e.faults.get()
	switch {
	case f.HangHealth:
		<-r.Context().Done()
		abandon()
	case f.Health != 0:
		w.WriteHeader(f.Health)
	}
}

func (e *Engine) version(w http.ResponseWriter, _ *http.Request) {
	writeJSON(w, http.StatusOK, map[string]string{"version": e.cfg.Version})
}

func (e *Engine) serverLoad(w http.ResponseWriter, _ *http.Request) {
	writeJSON(w, http.StatusOK, map[string]int{"server_load": e.work.count()})
}

func (e *Engine) models(w http.ResponseWriter, _ *http.Request) {
	type model struct {
		ID          string `json:"id"`
		Object      string `json:"object"`
		Created     int64  `json:"created"`
		OwnedBy     string `json:"owned_by"`
		Root        string `json:"root"`
		MaxModelLen int    `json:"max_model_len"`
	}
	list := struct {
		Object string  `json:"object"`
		Data   []model `json:"data"`
	}{Object: "list"}
	for _, name := range e.cfg.ServedNames {
		list.Data = append(list.Data, model{name, "model", e.ledger.began.Unix(), "vllm", e.cfg.Model, e.cfg.MaxModelLen})
	}
	writeJSON(w, http.StatusOK, list)
}

func (e *Engine) requests(w http.ResponseWriter, _ *http.Request) {
	writeJSON(w, http.StatusOK, map[string][]Record{"requests": e.Requests()})
}

func (e *Engine) fault(w http.ResponseWriter, r *http.Request) {
	f, err := ParseFault(http.MaxBytesReader(w, r.Body, 64<<10))
	if err == nil {
		err = e.SetFault(f)
	}
	if err != nil {
		badRequest("%v", err).write(w, false)
		return
	}
	writeJSON(w, http.StatusOK, f)
}
