package router

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"berth/fleet"
	"berth/fleet/wire"
	"berth/internal/durable"
	"berth/internal/listen"
	"berth/internal/ops"
	"berth/internal/release"
	"berth/internal/run"
	"berth/router/access"
	"berth/router/pool"
	"berth/router/upstream"
)

// continueWait is how long a door may take to say whether it wants a large body.
const continueWait = 5 * time.Second

// SpareHeap is how many bytes of garbage a process that is a router should let the heap grow by, see package heap: it saves
// a tenth of a request's cost, and is what two thousand streams take.
const SpareHeap = 32 << 20

// plainBody is the most bytes of a request that goes the short way (package lane). It is kept whole in any case.
const plainBody = 64 << 10

// Router is the data path of one process.
type Router struct {
	config    Config
	lock      *durable.DirLock
	unlock    sync.Once
	boot      uint64 // number of this start
	pool      *pool.Pool
	tables    *tables
	reporter  *reporter
	handler   *handler
	transport *http.Transport
	upstream  *upstream.Client
	ops       *ops.Ops
	metrics   *metrics
	serving   atomic.Bool
}

// New makes a router: it takes the data directory, counts this start, and routes by the table on disk if there is one.
// Close, or the end of Run, gives the directory back.
func New(c Config) (*Router, error) {
	if err := c.Validate(); err != nil {
		return nil, fmt.Errorf("router: %w", err)
	}
	c = c.withDefaults()
	if err := durable.MakeDir(c.DataDir); err != nil {
		return nil, fmt.Errorf("router: %w", err)
	}
	lock, err := durable.LockDir(c.DataDir)
	if err != nil {
		return nil, fmt.Errorf("router: %w", err)
	}
	boot, err := durable.NextCounter(filepath.Join(c.DataDir, bootFile))
	if err != nil {
		return nil, errors.Join(fmt.Errorf("router: count this start: %w", err), lock.Unlock())
	}
	r := &Router{config: c, lock: lock, boot: boot, pool: pool.New(c.Clock), ops: ops.New(ops.Build{Role: "router", Version: release.Version})}
	r.tables = openTables(filepath.Join(c.DataDir, "table.json"), r.pool, c.Logger)
	r.metrics = newMetrics(r.ops.Registry(), r.pool, func() tableState { return r.tables.state(r.staleAfter()) })
	r.reporter = newReporter(r.pool, c, boot, func() fleet.Index { return r.tables.state(0).Index })
	r.transport = listen.Transport(c.Network)
	r.transport.ExpectContinueTimeout = continueWait
	r.upstream = &upstream.Client{Dial: c.Network.Dial, Rest: r.transport}
	r.handler = newHandler(c, r.pool, r.upstream, r.metrics)
	return r, nil
}

func newHandler(c Config, p *pool.Pool, transport http.RoundTripper, m *metrics) *handler {
	var gate *access.Gate
	if c.Keys != nil {
		gate = access.New(*c.Keys)
	}
	return &handler{
		routes: routes(), pool: p, gate: gate, transport: transport, budget: newBudget(), ids: newIDs(), metrics: m, log: c.Logger, buffers: new(buffers),
		intake:         &intake{max: c.MaxBody, keep: c.KeepBody, idle: c.BodyIdle, memory: memory{limit: c.BodyMemory}},
		keepAliveAfter: c.KeepAliveAfter, keepAliveEvery: c.KeepAliveEvery, forwardCredentials: c.ForwardAuthorization,
	}
}

// Close gives the data directory back, for a router that was made and is not run.
func (r *Router) Close() (err error) {
	r.unlock.Do(func() { err = r.lock.Unlock() })
	return err
}

// Run serves until the context ends, then lets requests in flight finish for Config.Drain, sends a last report and
// returns nil. Its error says what could not be opened or failed by itself.
func (r *Router) Run(ctx context.Context) (err error) {
	defer func() { err = errors.Join(err, r.Close()) }()
	defer r.transport.CloseIdleConnections()
	defer r.upstream.CloseIdle()
	clients, err := r.config.clients().Listen(ctx, r.config.Network, listen.Spec{Addr: r.config.Bind, Flag: "--bind", Shared: r.config.Share})
	if err != nil {
		return fmt.Errorf("router: %w", err)
	}
	operators, err := r.config.Policy.Listen(ctx, r.config.Network, listen.Spec{Addr: r.config.Ops, Flag: "--ops-bind", Shared: r.config.Share})
	if err != nil {
		return fmt.Errorf("router: %w", errors.Join(err, clients.Close()))
	}
	r.reporter.at(clients.Addr().String(), operators.Addr().String())
	r.config.Logger.Info("router serves", "clients", clients.Addr(), "operators", operators.Addr())
	return r.serve(ctx, clients, operators)
}

// serve runs the parts. All but the clients' side go on until that has drained, so that the last streams are watched,
// counted and reported like any other.
func (r *Router) serve(ctx context.Context, clients, operators net.Listener) error {
	c := r.config
	back := run.NewGroup(context.WithoutCancel(ctx))
	back.Add("routing table", func(ctx context.Context) error { return r.tables.follow(ctx, c.Source, c.Wait) })
	back.Add("watch", func(ctx context.Context) error { return run.Every(ctx, c.Tick, r.watch) })
	back.Add("engines", func(ctx context.Context) error { return run.Every(ctx, c.Look, r.askEngines) })
	back.Add("reports", func(ctx context.Context) error { return run.Every(ctx, c.Tick, r.report) })
	back.Add("operators", func(ctx context.Context) error {
		return listen.ServeHTTP(ctx, operators, r.operators(), listen.ServerOptions{Log: c.Logger, Drain: time.Second})
	})
	back.Add("exposure of clients", func(ctx context.Context) error { return c.clients().Warn(ctx, c.Logger, c.Bind) })
	back.Add("exposure of operators", func(ctx context.Context) error { return c.Policy.Warn(ctx, c.Logger, c.Ops) })
	if c.KeysFile != "" {
		back.Add("API keys", r.followKeys)
	}
	back.Add("clients", func(back context.Context) error {
		front, stop := r.front(ctx, back)
		defer stop()
		defer context.AfterFunc(back, stop)() // another part failed
		defer context.AfterFunc(front, func() { r.serving.Store(false) })()
		r.serving.Store(true)
		if err := r.takeOver(clients, operators); err != nil {
			return err
		}
		return listen.ServeHTTP(front, clients, r.handler, listen.ServerOptions{H2C: true, Drain: c.Drain, Log: c.Logger,
			Plain: r.handler.plain, PlainBody: min(c.KeepBody, plainBody)})
	})
	err := back.Wait()
	_ = r.report(context.WithoutCancel(ctx)) // the last one; it bounds itself
	if err != nil {
		return fmt.Errorf("router: %w", err)
	}
	return nil
}

// front gives the context of the clients' side: it ends when ctx does, or when another process has taken over then.
func (r *Router) front(ctx, back context.Context) (context.Context, context.CancelFunc) {
	if !r.config.Share {
		return context.WithCancel(ctx)
	}
	front, end := context.WithCancel(context.WithoutCancel(ctx))
	over := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(over)
		r.handOver(back)
		end()
	})
	return front, func() {
		end()
		if !stop() {
			<-over
		}
	}
}

// takeOver leads connections to this process and tells the one before it.
func (r *Router) takeOver(listeners ...net.Listener) error {
	if !r.config.Share {
		return nil
	}
	for _, ln := range listeners {
		if err := listen.Lead(ln); err != nil {
			return err
		}
	}
	return r.lead()
}

// watch sets aside replicas whose tokens do not move.
func (r *Router) watch(context.Context) error {
	for _, id := range r.pool.Watch(pool.Patience{Stream: r.config.Hung, First: 4 * r.config.Hung, Cut: 4 * r.config.Hung}) {
		r.metrics.hung.Inc()
		r.config.Logger.Warn("a replica is set aside: it moves no tokens", "replica", id)
	}
	return nil
}

func (r *Router) report(ctx context.Context) error {
	err := r.reporter.report(ctx)
	r.metrics.reported(err)
	return nil // a report that did not arrive is made up for by the next one
}

// Handler is the clients' side, for a program that has its own server. Run must be running.
func (r *Router) Handler() http.Handler { return r.handler }

// Acquire chooses a replica of the model (name or alias) for a request that the caller sends itself, and counts it there
// until release is called. A nil hint is fine. Errors are those of [pool.Pool.Acquire].
func (r *Router) Acquire(ctx context.Context, model string, hint *pool.Hint) (e wire.Endpoint, release func(pool.Verdict), err error) {
	lease, err := r.pool.Acquire(ctx, model, hint)
	if err != nil {
		return wire.Endpoint{}, nil, err
	}
	return lease.Endpoint, lease.Release, nil
}

// IdleFor returns how long ago this process last used a replica, 0 while a request is in flight. It does not know what
// it has not served.
func (r *Router) IdleFor(replica string) (time.Duration, bool) { return r.pool.IdleFor(replica) }
