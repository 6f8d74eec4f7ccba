package router

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"berth/fleet"
	"berth/fleet/wire"
	"berth/internal/listen"
	"berth/router/access"
	"berth/router/openai"
	"berth/router/pool"
)

// handler serves clients.
type handler struct {
	routes    map[string]*route
	pool      *pool.Pool
	intake    *intake
	transport http.RoundTripper
	gate      *access.Gate // nil: everybody may send anything
	budget    *budget
	ids       *ids
	metrics   *metrics
	buffers   *buffers
	log       *slog.Logger

	keepAliveAfter, keepAliveEvery time.Duration
	forwardCredentials             bool
	parting                        atomic.Bool // another process has the port: no connection is kept
}

func (h *handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	id := r.Header.Get(wire.HeaderRequestID)
	if !validRequestID(id) {
		id = h.ids.next()
	}
	w.Header().Set(wire.HeaderRequestID, id)
	if h.parting.Load() && r.ProtoMajor == 1 {
		w.Header().Set("Connection", "close")
	}
	path := r.URL.Path
	switch rt := h.routes[path]; {
	case rt != nil && r.Method == http.MethodPost:
		h.carry(w, r, rt, id)
	case rt != nil:
		h.reject(w, wrongMethod(w, r, http.MethodPost))
	case path == "/v1/models" || strings.HasPrefix(path, "/v1/models/"):
		h.models(w, r)
	default:
		h.reject(w, notServed(r))
	}
}

// plain says whether a path is one of the routes to engines.
func (h *handler) plain(path string) bool { return h.routes[path] != nil }

// reject answers without reading the body. The server reads what is left of it before it sends the answer, so that must
// not take as long as the client likes.
func (h *handler) reject(w http.ResponseWriter, e *openai.Error) {
	_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(h.intake.idle)) // a writer that has none is a test's
	e.WriteTo(w)
}

// carry brings one request to a replica and its answer back.
func (h *handler) carry(w http.ResponseWriter, r *http.Request, rt *route, id string) {
	flusher, _ := w.(http.Flusher)
	x := &exchange{h: h, w: w, flusher: flusher, r: r, route: rt, id: id, start: time.Now()}
	h.metrics.begin()
	defer x.ended()
	var bad *openai.Error
	if x.client, bad = h.whose(w, r); bad != nil {
		x.status = bad.Status
		h.reject(w, bad)
		return
	}
	wanted, bad := h.intake.read(w, r, rt)
	if bad != nil {
		x.fail(bad)
		return
	}
	defer wanted.body.free()
	x.want = wanted
	leave, bad := x.enter()
	if bad != nil {
		x.fail(bad)
		return
	}
	defer leave()
	h.budget.deposit()
	x.run()
	if x.broken {
		panic(http.ErrAbortHandler) // the only way to end an answer so that the client sees that it is not whole
	}
}

// exchange is one request of a client and its answer.
type exchange struct {
	h       *handler
	w       http.ResponseWriter
	flusher http.Flusher
	r       *http.Request
	route   *route
	id      string
	start   time.Time
	want    *want
	client  *access.Client // nil without a file of keys
	hint    pool.Hint

	status    int           // sent to the client; 0: nothing yet
	committed bool          // 200 and the headers of an event stream were sent before any engine answered
	broken    bool          // the answer must end abnormally
	gone      bool          // the client went away
	last      *openai.Error // what the newest failed attempt met
	retry     string        // why another attempt is due; "" when none is
	waits     func() bool   // ends the attempt's readiness to go elsewhere, or later to end, if its replica hangs
	cancel    func()        // ends the attempt
}

// run sends the request to one replica after another until one answers or there is no more to try.
func (x *exchange) run() {
	x.hint = pool.Hint{Prompt: x.prompt(), Key: x.fairKey(), Arrived: x.start, Stop: listen.Stopping(x.r.Context()), Stream: x.want.stream}
	if x.want.stream {
		x.hint.Waiting, x.hint.WaitingAfter, x.hint.WaitingEvery = x.keepAlive, x.h.keepAliveAfter, x.h.keepAliveEvery
	}
	for {
		lease, err := x.h.pool.Acquire(x.r.Context(), x.want.model, &x.hint)
		if err != nil {
			x.refuse(err)
			return
		}
		if x.retry != "" {
			x.h.metrics.retries.WithLabelValues(x.retry).Inc()
			x.retry = ""
		}
		if x.attempt(&lease) {
			return
		}
	}
}

// refuse tells the client why no replica took the request. If some replica was tried, what that met says more.
func (x *exchange) refuse(err error) {
	var refusal *pool.Refusal
	switch {
	case x.r.Context().Err() != nil:
		x.left(false)
	case !errors.As(err, &refusal):
		x.gone = true // a keep-alive could not be written
	case refusal.Exhausted && x.last != nil:
		x.fail(x.last)
	case errors.Is(refusal, fleet.NotFound):
		x.fail(unknownModel(x.want.model))
	default:
		x.fail(&openai.Error{Status: http.StatusServiceUnavailable, Code: "model_not_ready", Message: refusal.Error(), RetryAfter: refusal.RetryAfter})
	}
}

func unknownModel(name string) *openai.Error {
	if len(name) > fleet.MaxModelName {
		name = name[:fleet.MaxModelName] + "…"
	}
	return &openai.Error{Status: http.StatusNotFound, Code: "model_not_found", Param: "model",
		Message: "the model " + strings.ToValidUTF8(name, "�") + " does not exist; GET /v1/models lists those that do"}
}

// fail answers with an error: as the answer, or as the last event of a stream that has begun.
func (x *exchange) fail(e *openai.Error) {
	if x.status != 0 {
		_, _ = x.w.Write(e.Event(x.route.dialect))
		x.flush()
		x.broken = true
		return
	}
	x.parting()
	x.status = e.Status
	e.WriteTo(x.w)
}

// parting tells a client that has not sent its whole body that the connection ends with this answer. net/http's server
// would otherwise read the rest of the body away from the engine that is still taking it, and could not use the
// connection afterwards, which the client must not find out by its next request.
func (x *exchange) parting() {
	if x.want != nil && x.want.body.unfinished() && x.r.ProtoMajor == 1 {
		x.w.Header().Set("Connection", "close")
	}
}

// keepAlive tells a client that waits for a stream that its request is alive. The first one commits the answer to 200.
func (x *exchange) keepAlive() error {
	if !x.committed {
		x.committed = true
		h := x.w.Header()
		h.Set("Content-Type", "text/event-stream; charset=utf-8")
		streamHeaders(h)
		x.writeHeader(http.StatusOK)
	}
	if _, err := x.w.Write([]byte(": waiting for a replica of the model\n\n")); err != nil {
		return err
	}
	x.flush()
	return nil
}

func (x *exchange) writeHeader(status int) {
	x.parting()
	x.status = status
	x.w.WriteHeader(status)
}

func (x *exchange) flush() {
	if x.flusher != nil {
		x.flusher.Flush()
	}
}

// ended counts and logs the exchange.
func (x *exchange) ended() {
	d, model := time.Since(x.start), ""
	if x.want != nil {
		model = x.want.model
	}
	outcome := x.outcome()
	x.h.metrics.end(x.route, outcome, d)
	if !x.h.log.Enabled(x.r.Context(), slog.LevelDebug) {
		return
	}
	x.h.log.LogAttrs(x.r.Context(), slog.LevelDebug, "request", slog.String("route", x.route.path), slog.String("model", model),
		slog.Int("status", x.status), slog.String("outcome", outcome.String()), slog.Duration("took", d), slog.String("request", x.id))
}

// outcome says how the exchange ended.
func (x *exchange) outcome() outcome {
	switch {
	case x.gone:
		return clientGone
	case x.broken:
		return broken
	case x.status >= 500:
		return serverError
	case x.status >= 400:
		return clientError
	}
	return fine
}

// outgoing makes the request to an engine.
func (x *exchange) outgoing(ctx context.Context, e *wire.Endpoint) *http.Request {
	u := *x.r.URL
	u.Scheme, u.Host, u.User = "http", e.Address, nil
	out := &http.Request{
		Method: x.r.Method, URL: &u, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header:        toEngine(x.r.Header, e.Key, x.id, x.h.forwardCredentials),
		ContentLength: x.want.body.length,
		Body:          x.want.body.open(),
	}
	if x.want.body.whole() {
		out.GetBody = func() (io.ReadCloser, error) { return x.want.body.open(), nil }
	} else {
		out.Header["Expect"] = []string{"100-continue"}
	}
	if len(x.r.Trailer) > 0 { // they follow chunks only
		out.Trailer, out.ContentLength = x.r.Trailer, -1
	}
	if x.committed {
		delete(out.Header, "Accept-Encoding") // the answer has begun in the clear
	}
	return out.WithContext(ctx)
}
