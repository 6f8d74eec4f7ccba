package stage

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"
)

// Step is one thing that a demonstration does and checks. Do returns what was found, in a few words.
type Step struct {
	Title string
	Do    func(context.Context) (string, error)
}

// logLines is how much of each process's log a failure shows.
const logLines = 12

// Play does the steps one after the other, prints each with the time that it took, and closes the stage. It fails at the first step that fails,
// after the last lines of every process. That a process had to be killed at the end, or was left by its parent, is a failure as well.
func (s *Stage) Play(ctx context.Context, out io.Writer, steps []Step) error {
	began := time.Now()
	err := s.play(ctx, out, steps)
	if err != nil && ctx.Err() == nil {
		fmt.Fprintf(out, "\n%s\n", s.Logs(logLines))
	}
	closing := time.Now()
	if left := s.Close(Patience); left != nil {
		return errors.Join(err, fmt.Errorf("cleaning up: %w", left))
	}
	fmt.Fprintf(out, "    no process and no folder is left: ok (%.1f s)\n", time.Since(closing).Seconds())
	if err == nil {
		fmt.Fprintf(out, "\nEvery check held. %.1f s in all.\n", time.Since(began).Seconds())
	}
	return err
}

func (s *Stage) play(ctx context.Context, out io.Writer, steps []Step) error {
	for i, st := range steps {
		began := time.Now()
		fmt.Fprintf(out, "%2d  %s ... ", i+1, st.Title)
		found, err := st.Do(ctx)
		took := time.Since(began).Seconds()
		switch {
		case ctx.Err() != nil:
			fmt.Fprintln(out, "interrupted")
			return fmt.Errorf("interrupted in step %d, %s", i+1, st.Title)
		case err != nil:
			fmt.Fprintf(out, "FAILED (%.1f s)\n", took)
			return fmt.Errorf("step %d, %s: %w", i+1, st.Title, err)
		}
		fmt.Fprintf(out, "ok (%.1f s)\n      %s\n", took, found)
	}
	return nil
}
