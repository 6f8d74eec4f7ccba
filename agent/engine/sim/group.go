package sim

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"
)

// A group is the ranks of one replica over several nodes. Rank 0 listens on the
// master port; each other rank connects, says who it is in one line of JSON, and is
// told to go when all are there. After that the connection carries nothing: that it
// stands is the message, as it is with the collectives of a real engine.
type group struct {
	e     *Engine
	ln    net.Listener
	conns map[int]net.Conn
	watch sync.WaitGroup
}

// hello is a rank's first and only line; the answer is verdict.
type hello struct {
	Version int    `json:"version"`
	Rank    int    `json:"rank"`
	NNodes  int    `json:"nnodes"`
	Model   string `json:"model"`
}

type verdict struct {
	Go    bool   `json:"go"`
	Error string `json:"error,omitempty"`
}

const (
	groupVersion = 1
	helloTimeout = 5 * time.Second
	dialEvery    = 500 * time.Millisecond
	complainEach = 10 * time.Second
)

// gather waits for every rank. When a rank is lost afterwards, the engine exits 1.
// The caller closes the group, also one that is not complete.
func (e *Engine) gather() (*group, error) {
	ctx, cancel := context.WithTimeoutCause(e.soft, e.cfg.GroupTimeout,
		&ExitError{1, fmt.Sprintf("not all of %d ranks came within %v", e.cfg.NNodes, e.cfg.GroupTimeout)})
	defer cancel()
	g := &group{e: e, conns: make(map[int]net.Conn)}
	ln, err := e.cfg.Listen(ctx, e.cfg.master())
	if err != nil {
		return g, fmt.Errorf("open the master port: %w", err)
	}
	g.ln = ln
	stop := context.AfterFunc(ctx, func() { ln.Close() })
	defer stop()
	for len(g.conns) < e.cfg.NNodes-1 {
		c, err := ln.Accept()
		if err != nil {
			if ctx.Err() != nil {
				err = context.Cause(ctx)
			}
			return g, fmt.Errorf("wait for the ranks at %s: %w", e.cfg.master(), err)
		}
		g.admit(c)
	}
	e.cfg.Logger.Info("all ranks are here", "nnodes", e.cfg.NNodes)
	for rank, c := range g.conns {
		g.start(rank, c)
	}
	return g, nil
}

// admit reads a connection's hello and keeps the connection, or says why not.
func (g *group) admit(c net.Conn) {
	_ = c.SetDeadline(time.Now().Add(helloTimeout))
	var h hello
	line, err := bufio.NewReader(c).ReadBytes('\n')
	if err == nil {
		err = json.Unmarshal(line, &h)
	}
	if err == nil {
		err = g.check(h)
	}
	if err != nil {
		g.e.cfg.Logger.Warn("refused a rank", "error", err)
		_ = json.NewEncoder(c).Encode(verdict{Error: err.Error()})
		c.Close()
		return
	}
	_ = c.SetDeadline(time.Time{})
	g.conns[h.Rank] = c
	g.e.cfg.Logger.Info("rank connected", "rank", h.Rank)
}

func (g *group) check(h hello) error {
	cfg := g.e.cfg
	switch {
	case h.Version != groupVersion:
		return fmt.Errorf("version %d is not %d", h.Version, groupVersion)
	case h.NNodes != cfg.NNodes || h.Model != cfg.Model:
		return fmt.Errorf("rank %d runs %q over %d nodes; this group is %q over %d", h.Rank, h.Model, h.NNodes, cfg.Model, cfg.NNodes)
	case h.Rank < 1 || h.Rank >= cfg.NNodes:
		return fmt.Errorf("rank %d is not in 1 to %d", h.Rank, cfg.NNodes-1)
	case g.conns[h.Rank] != nil:
		return fmt.Errorf("rank %d is here already", h.Rank)
	}
	return nil
}

// start tells a rank to go and watches it.
func (g *group) start(rank int, c net.Conn) {
	g.watch.Go(func() {
		err := json.NewEncoder(c).Encode(verdict{Go: true})
		if err == nil {
			_, err = c.Read(make([]byte, 1))
		}
		if g.e.life.Err() == nil {
			g.e.crash(&ExitError{1, fmt.Sprintf("rank %d is lost: %v", rank, err)})
		}
	})
}

// close ends the group's connections; the engine's life has ended before.
func (g *group) close() {
	if g.ln != nil {
		g.ln.Close()
	}
	for _, c := range g.conns {
		c.Close()
	}
	g.watch.Wait()
}

// runHeadless is the life of a rank above 0.
func (e *Engine) runHeadless() error {
	c, err := e.join()
	if err != nil {
		return err
	}
	defer c.Close()
	stop := context.AfterFunc(e.soft, func() { c.Close() })
	defer stop()
	if err := e.load(); err != nil {
		return err
	}
	e.faults.arm()
	close(e.ready)
	_, err = c.Read(make([]byte, 1))
	if e.soft.Err() != nil {
		return context.Cause(e.soft)
	}
	if e.faults.get().ExitOnMasterLoss {
		return &ExitError{1, fmt.Sprintf("rank 0 is lost: %v", err)}
	}
	for { // vLLM's survivors live on and complain until somebody ends them
		e.cfg.Logger.Error("rank 0 is lost", "rank", e.cfg.NodeRank, "error", err)
		if err := pause(e.soft, complainEach); err != nil {
			return err
		}
	}
}

// join connects to rank 0, which may come later, and returns when all ranks are there.
func (e *Engine) join() (net.Conn, error) {
	ctx, cancel := context.WithTimeoutCause(e.soft, e.cfg.GroupTimeout,
		&ExitError{1, fmt.Sprintf("no complete group at %s within %v", e.cfg.master(), e.cfg.GroupTimeout)})
	defer cancel()
	for {
		c, err := e.cfg.Dial(ctx, e.cfg.master())
		if err == nil {
			return e.greet(ctx, c)
		}
		if err := pause(ctx, dialEvery); err != nil {
			return nil, err
		}
	}
}

func (e *Engine) greet(ctx context.Context, c net.Conn) (net.Conn, error) {
	stop := context.AfterFunc(ctx, func() { c.Close() })
	defer stop()
	err := json.NewEncoder(c).Encode(hello{groupVersion, e.cfg.NodeRank, e.cfg.NNodes, e.cfg.Model})
	var v verdict
	if err == nil {
		err = json.NewDecoder(c).Decode(&v)
	}
	if err == nil && v.Go {
		return c, nil
	}
	c.Close()
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	if v.Error != "" {
		err = errors.New(v.Error)
	}
	return nil, &ExitError{1, fmt.Sprintf("rank 0 did not take rank %d: %v", e.cfg.NodeRank, err)}
}
