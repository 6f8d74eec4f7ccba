package sim

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync"
	"time"
)

// serve opens the listener and serves until the engine ends. With load, it does
// that while it listens.
func (e *Engine) serve(load func() error) error {
	ln, err := e.cfg.Listen(e.soft, e.cfg.address())
	if err != nil {
		return fmt.Errorf("listen on %s: %w", e.cfg.address(), err)
	}
	e.addr = ln.Addr()
	conns := &connections{}
	srv := &http.Server{
		Handler:           e,
		BaseContext:       func(net.Listener) context.Context { return e.life },
		ConnContext:       func(ctx context.Context, c net.Conn) context.Context { return context.WithValue(ctx, connKey{}, c) },
		ConnState:         conns.track,
		ReadHeaderTimeout: time.Minute,
	}
	done := make(chan error, 1)
	go func() { done <- srv.Serve(ln) }()
	err = e.untilEnd(load, done)
	e.kill(err) // handlers first, so that none of them ends its answer well
	srv.Close()
	conns.wait()
	e.inflight.Wait()
	return err
}

// untilEnd returns why serving ends; the listener's failure comes through served.
func (e *Engine) untilEnd(load func() error, served <-chan error) error {
	if load != nil {
		if err := load(); err != nil {
			return err
		}
	}
	e.phase.Store(int32(serving))
	e.faults.arm()
	e.cfg.Logger.Info("engine ready", "model", e.cfg.Model, "addr", e.addr.String())
	close(e.ready)
	select {
	case err := <-served:
		return fmt.Errorf("serve on %s: %w", e.addr, err)
	case <-e.soft.Done():
	}
	if e.life.Err() == nil {
		e.drain()
	}
	return context.Cause(e.soft)
}

// drain refuses what is new and gives what runs its time.
func (e *Engine) drain() {
	slow := time.Duration(e.faults.get().SlowDrain)
	limit := max(e.cfg.ShutdownTimeout, slow)
	e.gate.Lock()
	e.phase.Store(int32(draining))
	e.gate.Unlock()
	if limit == 0 {
		return
	}
	e.cfg.Logger.Info("draining", "timeout", limit)
	began := time.Now()
	ctx, cancel := context.WithTimeout(e.life, limit)
	defer cancel()
	go func() {
		e.inflight.Wait() // serve waits for the same, after it has cut them
		cancel()
	}()
	<-ctx.Done()
	_ = pause(e.life, slow-time.Since(began))
}

// enter lets a request in unless the engine drains; the caller calls inflight.Done.
func (e *Engine) enter() bool {
	e.gate.Lock()
	defer e.gate.Unlock()
	if phase(e.phase.Load()) == draining {
		return false
	}
	e.inflight.Add(1)
	return true
}

// connKey is the context key of a request's connection, which a reset needs.
type connKey struct{}

// reset makes the close that follows a TCP reset, where the connection has one.
func reset(r *http.Request) {
	if c, ok := r.Context().Value(connKey{}).(*net.TCPConn); ok {
		_ = c.SetLinger(0)
	}
}

// connections waits for the server's goroutines: http.Server.Close does not.
type connections struct {
	mu     sync.Mutex
	closed bool
	open   sync.WaitGroup
}

func (c *connections) track(_ net.Conn, s http.ConnState) {
	switch s {
	case http.StateNew:
		c.open.Add(1)
	case http.StateClosed, http.StateHijacked:
		c.open.Done()
	}
}

func (c *connections) wait() { c.open.Wait() }

// abandon ends an answer so that its reader sees that it is not whole.
func abandon() { panic(http.ErrAbortHandler) }

var errUnready = errors.New("loading")
