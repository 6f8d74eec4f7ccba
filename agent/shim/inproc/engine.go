package inproc

import (
	"context"
	"errors"
	"fmt"

	"berth/agent/shim"
	"berth/fleet"
)

// Engine is an engine as a function. Ending Run's context is SIGKILL, Terminate is SIGTERM, and Run returns when
// nothing of it is left. An error that has a method ExitCode() int gives the exit code; any other error is code 1.
type Engine interface {
	Run(ctx context.Context) error
	Terminate()
}

// NewEngine makes an engine for one start, from the command line that a process would have.
type NewEngine func(shim.Exec) (Engine, error)

type starter struct{ make NewEngine }

// Start implements [shim.Starter].
func (s starter) Start(x shim.Exec) (shim.Process, error) {
	e, err := s.make(x)
	if err != nil {
		return nil, err
	}
	ctx, kill := context.WithCancelCause(context.Background())
	r := &routine{engine: e, kill: kill, done: make(chan struct{})}
	go func() { // whoever starts a process waits for its Done
		defer close(r.done)
		err := e.Run(ctx)
		r.exit = exitOf(err, context.Cause(ctx))
		if err != nil {
			fmt.Fprintln(x.Output, err)
		}
		kill(nil)
	}()
	return r, nil
}

var errKilled = errors.New("killed")

func exitOf(err, cause error) fleet.Exit {
	var coded interface{ ExitCode() int }
	switch {
	case errors.Is(cause, errKilled):
		return fleet.Exit{Code: -1, Signal: "SIGKILL"}
	case err == nil:
		return fleet.Exit{}
	case errors.As(err, &coded):
		return fleet.Exit{Code: coded.ExitCode()}
	}
	return fleet.Exit{Code: 1}
}

// routine is a running engine; it is its whole tree.
type routine struct {
	engine Engine
	kill   context.CancelCauseFunc
	done   chan struct{}
	exit   fleet.Exit
}

// Done implements [shim.Process].
func (r *routine) Done() <-chan struct{} { return r.done }

// Exit implements [shim.Process].
func (r *routine) Exit() fleet.Exit { return r.exit }

// Terminate implements [shim.Process].
func (r *routine) Terminate() { r.engine.Terminate() }

// Kill implements [shim.Process].
func (r *routine) Kill(ctx context.Context) error {
	r.kill(errKilled)
	select {
	case <-r.done:
		return nil
	case <-ctx.Done():
		return errors.New("the engine's function has not returned")
	}
}
