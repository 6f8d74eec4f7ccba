package client

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"
)

const (
	// patience is how long a peer may take to begin its answer, beyond the wait that was asked for. A peer gives up on raft after 10 s, and so
	// does the leader to which it passes a request on.
	patience = 30 * time.Second
	// longPatience is for what a peer does with a whole snapshot before it answers.
	longPatience = 11 * time.Minute
)

// patience is how long the beginning of the answer is waited for.
func (c Call) patience() time.Duration {
	if _, streamed := c.Body.(io.Reader); streamed {
		return longPatience
	}
	wait, err := time.ParseDuration(c.Query.Get("wait")) // which a peer refuses if it is none
	if err != nil || wait < 0 {
		wait = 0
	}
	return wait + patience
}

// errSilent is why a call was given up whose answer did not begin.
var errSilent = errors.New("no answer")

// attempt is one try's context: it ends at the call's own timeout, or when its answer does not begin in time. Begun says that it has.
func (c Call) attempt(ctx context.Context) (_ context.Context, begun func(), end context.CancelFunc) {
	stop := context.CancelFunc(func() {})
	if c.Timeout > 0 {
		ctx, stop = context.WithTimeout(ctx, c.Timeout)
	}
	ctx, giveUp := context.WithCancelCause(ctx)
	silent := time.AfterFunc(c.patience(), func() { giveUp(fmt.Errorf("%w within %v", errSilent, c.patience())) })
	return ctx, func() { silent.Stop() }, func() {
		silent.Stop()
		giveUp(context.Canceled)
		stop()
	}
}
