package shim

import (
	"context"
	"errors"
	"io"

	"berth/fleet"
)

// ErrGone says that the shim has ended.
var ErrGone = errors.New("the shim has ended")

// Exec is one start of an engine: a Program with its placeholders filled.
type Exec struct {
	Args, Env []string
	Dir       string
	Output    io.Writer // of both streams; never blocks
}

// Starter starts engines.
type Starter interface {
	Start(e Exec) (Process, error)
}

// Process is a started engine and everything that came of it.
type Process interface {
	// Done is closed when the engine's first process has ended; others of its tree may live on.
	Done() <-chan struct{}
	// Exit is how it ended, once Done is closed. At and Log are left to the caller.
	Exit() fleet.Exit
	// Terminate asks the engine to end (SIGTERM to its first process).
	Terminate()
	// Kill ends the whole tree with SIGKILL and waits until nothing of it is left, or the context ends. It may be
	// called again.
	Kill(ctx context.Context) error
}
