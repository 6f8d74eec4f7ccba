package sim

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync/atomic"
	"time"
)

// ExitError is how an engine ends that did not end by itself: what a process's
// exit code would be, and why.
type ExitError struct {
	Code   int
	Reason string
}

func (e *ExitError) Error() string { return fmt.Sprintf("exit code %d: %s", e.Code, e.Reason) }

// ExitCode gives the code to who runs an engine in its own process.
func (e *ExitError) ExitCode() int { return e.Code }

// ExitCode is the exit code of a process whose [Engine.Run] returned err; an ended
// context counts as SIGKILL, 137 as shells write it.
func ExitCode(err error) int {
	var exit *ExitError
	switch {
	case err == nil:
		return 0
	case errors.As(err, &exit):
		return exit.Code
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return 137
	}
	return 1
}

var (
	errTerminated = errors.New("terminated")
	errEnded      = errors.New("the engine has ended")
)

// Engine is one simulated engine. It is an [http.Handler] that serves at once;
// [Engine.Run] adds what a process has: loading, a listener, ranks, an end.
type Engine struct {
	cfg    Config
	names  map[string]bool
	cache  *prefixCache
	slots  *slots
	stats  *metrics
	ledger *ledger
	faults *faultBox
	routes map[string]route

	ran     atomic.Bool
	loading atomic.Bool   // never true without Run, so that a bare handler serves
	ready   chan struct{} // closed when Run is ready
	addr    net.Addr      // written before ready is closed
	ids     atomic.Uint64

	life context.Context // ends with the process; its cause says why
	kill context.CancelCauseFunc
	soft context.Context // ends with SIGTERM, or with life
	term context.CancelCauseFunc

	work *gate // requests that make the engine work
}

// New makes an engine; the error lists all that is wrong with cfg.
func New(cfg Config) (*Engine, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	cfg = cfg.withDefaults()
	e := &Engine{
		cfg:    cfg,
		names:  make(map[string]bool),
		cache:  newPrefixCache(cfg.CacheBlocks),
		slots:  &slots{max: cfg.MaxNumSeqs, bound: cfg.MaxQueued},
		ledger: &ledger{began: time.Now(), limit: cfg.RecordLimit},
		ready:  make(chan struct{}),
		work:   newGate(),
	}
	for _, n := range cfg.ServedNames {
		e.names[n] = true
	}
	e.stats = newMetrics(cfg, e.slots)
	e.life, e.kill = context.WithCancelCause(context.Background())
	e.soft, e.term = context.WithCancelCause(e.life)
	e.faults = &faultBox{fault: cfg.Fault, onTimer: e.crash}
	e.routes = e.routeTable()
	return e, nil
}

// Ready is closed when Run has loaded and, on rank 0, listens.
func (e *Engine) Ready() <-chan struct{} { return e.ready }

// Addr is where HTTP is served, once [Engine.Ready] is closed; nil on ranks > 0.
func (e *Engine) Addr() net.Addr { return e.addr }

// Requests returns the record of arrivals, oldest first.
func (e *Engine) Requests() []Record { return e.ledger.all() }

// SetFault replaces the fault while the engine runs; the zero Fault heals it. What
// only means something while loading has no effect any more.
func (e *Engine) SetFault(f Fault) error {
	if err := f.validate(e.cfg.Spawn != nil); err != nil {
		return err
	}
	e.faults.replace(f)
	return e.spawn(f)
}

// Terminate is SIGTERM: loading stops, running requests are cut, or are given
// Config.ShutdownTimeout, and Run returns nil.
func (e *Engine) Terminate() {
	if e.faults.get().IgnoreTerm {
		e.cfg.Logger.Warn("SIGTERM ignored, as the fault asks")
		return
	}
	e.term(errTerminated)
}

// Run is the engine's life as a process, once. Ending ctx is SIGKILL: everything is
// cut and Run returns ctx's cause. It returns nil after [Engine.Terminate], an
// [*ExitError] when a fault or a lost rank ended it, and any other error when it
// could not start. It returns when nothing of it is left running.
func (e *Engine) Run(ctx context.Context) error {
	if e.ran.Swap(true) {
		return errors.New("sim: an engine runs once; make a new one")
	}
	stop := context.AfterFunc(ctx, func() { e.kill(context.Cause(ctx)) })
	defer stop()
	defer e.kill(errEnded)
	defer e.faults.disarm()
	e.loading.Store(true)
	if err := e.spawn(e.cfg.Fault); err != nil {
		return err
	}
	err := e.runRank()
	if e.life.Err() != nil {
		err = context.Cause(e.life) // the first cause; what followed from it is noise
	}
	if errors.Is(err, errTerminated) {
		return nil
	}
	return err
}

func (e *Engine) runRank() error {
	if e.cfg.Headless {
		return e.runHeadless()
	}
	if e.cfg.NNodes == 1 {
		return e.runHead()
	}
	g, err := e.gather()
	if err == nil {
		err = e.runHead()
	}
	e.kill(err) // before the group closes: its end is no loss of a rank then
	g.close()
	return err
}

func (e *Engine) runHead() error {
	if e.cfg.Loading == Loading503 {
		return e.serve(e.load)
	}
	if err := e.load(); err != nil {
		return err
	}
	return e.serve(nil)
}

// load passes the load time in tenths, each with a line in the log, which is what
// a supervisor can see of a load's progress.
func (e *Engine) load() error {
	fail, stall := time.Duration(e.cfg.Fault.FailLoadAfter), time.Duration(e.cfg.Fault.StallLoadAfter)
	began := time.Now()
	for i := 1; i <= 10; i++ {
		next := e.cfg.LoadTime * time.Duration(i) / 10
		if fail > 0 && fail <= next || stall > 0 && stall <= next {
			break
		}
		if err := pause(e.soft, next-time.Since(began)); err != nil {
			return err
		}
		e.cfg.Logger.Info("loading weights", "model", e.cfg.Model, "done_percent", 10*i)
	}
	switch {
	case fail > 0:
		if err := pause(e.soft, fail-time.Since(began)); err != nil {
			return err
		}
		return &ExitError{1, "the load failed, as the fault asks"}
	case stall > 0:
		<-e.soft.Done()
	}
	return context.Cause(e.soft)
}

func (e *Engine) spawn(f Fault) error {
	if f.ForkChild == 0 {
		return nil
	}
	if err := e.cfg.Spawn(time.Duration(f.ForkChild)); err != nil {
		return fmt.Errorf("fault: fork_child: %w", err)
	}
	return nil
}

// crash ends the engine's life at once.
func (e *Engine) crash(why *ExitError) {
	e.cfg.Logger.Error("engine died", "code", why.Code, "reason", why.Reason)
	e.kill(why)
}

// pause waits for d; it returns ctx's cause when that ends first.
func pause(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return context.Cause(ctx)
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
