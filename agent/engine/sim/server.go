package sim

import (
	"context"
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
		return fmt.Errorf("open the HTTP port: %w", err)
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
	var served error
	done := make(chan struct{})
	go func() {
		defer close(done)
		served = srv.Serve(ln)
	}()
	err = e.untilEnd(load, done)
	if err == nil {
		<-done
		err = fmt.Errorf("serve on %s: %w", e.addr, served)
	}
	e.kill(err) // handlers first, so that none of them ends its answer well
	left := e.work.close()
	srv.Close()
	<-done // no connection is accepted any more
	conns.wait()
	<-left
	return err
}

// untilEnd returns why serving ends, nil when the listener failed.
func (e *Engine) untilEnd(load func() error, done <-chan struct{}) error {
	if load != nil {
		if err := load(); err != nil {
			return err
		}
	}
	e.loading.Store(false)
	e.faults.arm()
	e.cfg.Logger.Info("engine ready", "model", e.cfg.Model, "addr", e.addr.String())
	close(e.ready)
	select {
	case <-done:
		return nil
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
	empty := e.work.close()
	if limit == 0 {
		return
	}
	e.cfg.Logger.Info("draining", "timeout", limit)
	began := time.Now()
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-empty:
	case <-timer.C:
	case <-e.life.Done():
	}
	_ = pause(e.life, slow-time.Since(began))
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
type connections struct{ open sync.WaitGroup }

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
