package admin

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"runtime/debug"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/gorilla/mux"

	"berth/admin/client"
	"berth/admin/web"
	"berth/fleet"
	"berth/fleet/wire"
)

// Limits of a request, in bytes.
const (
	maxBody     = 8 << 20 // a registration of a machine with many cards, or a spec with long argument lists, is far smaller
	maxSnapshot = 8 << 30
)

// writeDeadline bounds a write from its arrival to its answer, forwarding included.
const writeDeadline = 15 * time.Second

// Config is what the API is made of.
type Config struct {
	Core      Core
	Board     Board
	Members   Members
	Snapshots Snapshots
	Planner   Planner
	Ops       http.Handler      // /livez, /readyz, /metrics
	Transport http.RoundTripper // to the leader, and to agents for logs
	Version   string
	Log       *slog.Logger
}

// Server is the API of one peer. It is an http.Handler.
type Server struct {
	Config
	router  *mux.Router
	proxy   http.RoundTripper
	summary *summary

	passedOn atomic.Uint64 // index up to which writes went through this peer to the leader; 0: this peer has applied them
}

// New returns the API.
func New(cfg Config) *Server {
	s := &Server{Config: cfg, proxy: cfg.Transport, summary: newSummary(cfg.Core, cfg.Board)}
	if s.proxy == nil {
		s.proxy = http.DefaultTransport
	}
	// Names of models hold slashes and colons. The router matches the escaped path and cleans nothing; we unescape a name once, ourselves.
	s.router = mux.NewRouter().UseEncodedPath().SkipClean(true)
	for _, r := range routes() {
		s.router.Methods(r.method).Path(r.template()).Name(r.name()).Handler(s.endpoint(r))
	}
	s.router.Methods(http.MethodGet, http.MethodHead).Path("/").Handler(web.Handler())
	s.router.Methods(http.MethodGet).Path("/leaderz").HandlerFunc(s.leaderz)
	if cfg.Ops != nil {
		for _, p := range []string{"/livez", "/readyz", "/metrics"} {
			s.router.Methods(http.MethodGet, http.MethodHead).Path(p).Handler(cfg.Ops)
		}
	}
	s.router.PathPrefix("/v1/").HandlerFunc(s.notARouter)
	s.router.NotFoundHandler = http.HandlerFunc(s.notFound)
	s.router.MethodNotAllowedHandler = http.HandlerFunc(s.wrongMethod)
	return s
}

// Run prepares the next answers until the context ends. The API answers without it, only slower.
func (s *Server) Run(ctx context.Context) error { return s.summary.run(ctx) }

// ServeHTTP implements http.Handler.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Header.Get(wire.HeaderRequestID) == "" {
		r.Header.Set(wire.HeaderRequestID, client.NewRequestID(s.Core.State().Index()))
	}
	w.Header().Set(wire.HeaderRequestID, r.Header.Get(wire.HeaderRequestID))
	defer s.recovered(w, r)
	s.router.ServeHTTP(w, r)
}

func (s *Server) recovered(w http.ResponseWriter, r *http.Request) {
	p := recover()
	if p == nil || errors.Is(asError(p), http.ErrAbortHandler) {
		if p != nil {
			panic(p)
		}
		return
	}
	s.Log.Error("a handler panicked: this is a defect", "method", r.Method, "path", r.URL.EscapedPath(), "panic", p, "stack", string(debug.Stack()))
	s.fail(w, fleet.Errorf(fleet.Internal, "this request met a defect of Berth").WithHint("the peer's log has the details under request %s", r.Header.Get(wire.HeaderRequestID)))
}

func asError(p any) error {
	err, _ := p.(error)
	return err
}

// endpoint wraps a route: who may call it, where it is answered, and its limits.
func (s *Server) endpoint(rt route) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := s.authorize(rt, r); err != nil {
			s.fail(w, err)
			return
		}
		q := &request{Request: r, server: s, route: rt, vars: mux.Vars(r)}
		if err := q.unescape(); err != nil {
			s.fail(w, err)
			return
		}
		if !rt.stream {
			r.Body = http.MaxBytesReader(w, r.Body, maxBody)
		}
		if rt.where == atLeader {
			ctx, cancel := context.WithTimeout(r.Context(), writeDeadline)
			defer cancel()
			if rt.stream {
				ctx = r.Context()
			}
			q.Request = r.WithContext(ctx)
		}
		s.answer(w, q)
	})
}

// answer decides where the request is answered, here or at the leader, and how fresh the answer must be.
func (s *Server) answer(w http.ResponseWriter, q *request) {
	if q.route.before != nil {
		if err := q.route.before(s, q); err != nil {
			s.freshness(w, s.Core.Knowledge())
			s.fail(w, err)
			return
		}
	}
	k := s.Core.Knowledge()
	forward, err := s.place(q, k)
	if err != nil {
		s.freshness(w, k)
		s.fail(w, err)
		return
	}
	if forward {
		s.forward(w, q, k)
		return
	}
	if q.route.where == nearest {
		s.awaitOwnWrites(q.Context())
	}
	s.run(w, q)
}

// run calls the route's handler here and writes what it returns.
func (s *Server) run(w http.ResponseWriter, q *request) {
	if q.route.raw != nil {
		s.freshness(w, s.Core.Knowledge())
		if err := q.route.raw(s, w, q); err != nil {
			s.fail(w, err)
		}
		return
	}
	v, err := q.route.handle(s, q)
	s.freshness(w, s.Core.Knowledge())
	if q.index != nil { // also for a refusal: what is not there was not there at that index
		w.Header().Set(wire.HeaderIndex, q.index.String())
	}
	if err != nil {
		s.fail(w, err)
		return
	}
	s.write(w, http.StatusOK, v)
}

// freshness says with the answer how fresh it is. A handler that reads a particular state overwrites the index with that state's.
func (s *Server) freshness(w http.ResponseWriter, k Knowledge) {
	h := w.Header()
	st := s.Core.State()
	h.Set(wire.HeaderIndex, st.Index().String())
	h.Set(wire.HeaderCommitIndex, strconv.FormatUint(k.Commit, 10))
	h.Set(wire.HeaderKnowledgeAge, strconv.FormatInt(ageMS(k.Age), 10))
	h.Set(wire.HeaderKnownLeader, k.Leader)
	h.Set(wire.HeaderCluster, st.Cluster().ID)
}

func ageMS(d time.Duration) int64 {
	if d < 0 {
		return -1
	}
	return d.Milliseconds()
}

func (s *Server) write(w http.ResponseWriter, status int, v any) {
	pieces, ready := v.(encoded)
	if !ready {
		data, err := json.Marshal(v)
		if err != nil {
			s.fail(w, fleet.Errorf(fleet.Internal, "cannot write the answer: %s", err))
			return
		}
		pieces = encoded{data}
	}
	pieces = append(pieces, []byte{'\n'})
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", strconv.Itoa(pieces.size()))
	w.WriteHeader(status)
	for _, piece := range pieces {
		_, _ = w.Write(piece) // the client may be gone; there is nobody to tell
	}
}

// fail answers with an error in the API's shape.
func (s *Server) fail(w http.ResponseWriter, err error) {
	e := fleet.AsError(err)
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		e = fleet.Errorf(fleet.OutcomeUnknown, "no answer in time").WithHint("repeat the request with the same %s to find out", wire.HeaderRequestID)
	case errors.As(err, new(*http.MaxBytesError)):
		e = fleet.Errorf(fleet.TooLarge, "the body is larger than %s", fleet.Bytes(maxBody))
	}
	if e.Code.Status() == http.StatusServiceUnavailable || e.Code == fleet.Busy {
		w.Header().Set("Retry-After", "1")
	}
	data, _ := json.Marshal(wire.ErrorBody{Error: *e})
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(e.Code.Status())
	_, _ = w.Write(append(data, '\n'))
}

func (s *Server) leaderz(w http.ResponseWriter, _ *http.Request) {
	k := s.Core.Knowledge()
	s.freshness(w, k)
	if !k.IsLeader {
		s.fail(w, fleet.Errorf(fleet.NotReady, "this peer is not the leader").WithHint("the leader is %s", orUnknown(k.Leader)))
		return
	}
	s.write(w, http.StatusOK, map[string]string{"leader": k.Leader})
}

func orUnknown(s string) string {
	if s == "" {
		return "not known"
	}
	return s
}

// notARouter answers clients of models that came to a peer: peers place models, routers serve them.
func (s *Server) notARouter(w http.ResponseWriter, _ *http.Request) {
	var addrs []string
	for _, r := range s.Board.Brief(noIdle).Routers {
		if r.Address != "" {
			addrs = append(addrs, "http://"+r.Address+"/v1")
		}
	}
	e := fleet.Errorf(fleet.NotFound, "this is a peer; models are served by the routers")
	if len(addrs) > 0 {
		e = e.WithHint("use one of %v", addrs)
	}
	s.fail(w, e)
}

func (s *Server) notFound(w http.ResponseWriter, r *http.Request) {
	s.fail(w, fleet.Errorf(fleet.NotFound, "no route %s %s", r.Method, r.URL.EscapedPath()).WithHint("see %s/openapi.json", wire.Prefix))
}

func (s *Server) wrongMethod(w http.ResponseWriter, r *http.Request) {
	w.WriteHeader(http.StatusMethodNotAllowed)
	data, _ := json.Marshal(wire.ErrorBody{Error: *fleet.Errorf(fleet.BadRequest, "%s does not take %s", r.URL.EscapedPath(), r.Method)})
	_, _ = w.Write(append(data, '\n'))
}
