package stage

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// poll is the time between two looks at something that will come.
const poll = 100 * time.Millisecond

// Until asks check again and again until it returns nil. Its error, after limit, is the last one of check: what was still missing.
func Until(ctx context.Context, limit time.Duration, check func(context.Context) error) error {
	ctx, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("not within %s", limit))
	defer cancel()
	var last error
	for {
		err := check(ctx)
		if err == nil {
			return nil
		}
		if ctx.Err() == nil || last == nil {
			last = err // an answer that the deadline cut short says nothing
		}
		select {
		case <-ctx.Done():
			return errors.Join(context.Cause(ctx), last)
		case <-time.After(poll):
		}
	}
}
