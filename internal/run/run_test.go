package run

import (
	"context"
	"errors"
	"os"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var errActor = errors.New("no disk")

func untilEnd(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }

func TestFirstReturnEndsAll(t *testing.T) {
	for name, c := range map[string]struct {
		first error
		want  string
	}{
		"error":         {errActor, "raft: no disk"},
		"nil":           {nil, ""},
		"foreign cause": {context.Canceled, "raft: context canceled"}, // not by the group's end
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g := NewGroup(t.Context())
				joined := 0
				g.Add("a", func(ctx context.Context) error { defer func() { joined++ }(); return untilEnd(ctx) })
				g.Add("raft", func(context.Context) error { time.Sleep(time.Second); return c.first })
				err := g.Wait()
				if joined != 1 {
					t.Error("Wait returned before an actor")
				}
				if got := text(err); got != c.want {
					t.Errorf("error %q, want %q", got, c.want)
				}
				if c.first != nil && !errors.Is(err, c.first) {
					t.Errorf("%v does not wrap %v", err, c.first)
				}
			})
		})
	}
}

func text(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

func TestErrorWhileStoppingIsKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewGroup(t.Context())
		g.Add("saver", func(ctx context.Context) error { <-ctx.Done(); return errActor })
		g.Add("later", func(ctx context.Context) error { <-ctx.Done(); time.Sleep(time.Second); return os.ErrClosed })
		g.Stop()
		if err := g.Wait(); !errors.Is(err, errActor) || errors.Is(err, os.ErrClosed) {
			t.Errorf("%v, want the first error alone", err)
		}
	})
}

func TestParentEndsTheGroup(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	g := NewGroup(ctx)
	g.Add("outer", func(ctx context.Context) error {
		g.Add("inner", untilEnd)
		return untilEnd(ctx)
	})
	cancel()
	if err := g.Wait(); err != nil {
		t.Error(err)
	}
}

func TestEvery(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 10500*time.Millisecond)
		defer cancel()
		calls := 0
		if err := Every(ctx, time.Second, func(context.Context) error { calls++; return nil }); err != nil || calls != 10 {
			t.Errorf("%d calls in 10.5 s, %v", calls, err)
		}
		if err := Every(t.Context(), time.Second, func(context.Context) error { return errActor }); !errors.Is(err, errActor) {
			t.Error(err)
		}
	})
}

func TestEveryDoesNotCallAfterTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for range 50 { // the tick and the end fall on one instant, and select would choose either
			ctx, cancel := context.WithCancel(t.Context())
			time.AfterFunc(2*time.Second, cancel)
			calls := 0
			Every(ctx, time.Second, func(context.Context) error {
				calls++
				time.Sleep(time.Second)
				synctest.Wait()
				return nil
			})
			if calls != 1 {
				t.Fatalf("%d calls, want 1", calls)
			}
		}
	})
}

func TestSignals(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ch := make(chan os.Signal, 2)
		var exits []int
		ctx, stop := watch(t.Context(), ch, func(code int) { exits = append(exits, code) })
		synctest.Wait()
		if ctx.Err() != nil {
			t.Error("ended without a signal")
		}
		ch <- syscall.SIGTERM
		<-ctx.Done()
		synctest.Wait()
		if len(exits) != 0 {
			t.Errorf("first signal exits with %v", exits)
		}
		ch <- syscall.SIGINT
		synctest.Wait()
		stop()
		if len(exits) != 1 || exits[0] != 130 {
			t.Errorf("second signal exits with %v, want 130", exits)
		}
	})
}

func TestStopEndsTheContext(t *testing.T) {
	ctx, stop := Signals(t.Context())
	stop()
	if ctx.Err() == nil {
		t.Error("context lives on")
	}
}

func TestSignalOfTheSystem(t *testing.T) {
	ctx, stop := Signals(t.Context())
	defer stop()
	if err := syscall.Kill(os.Getpid(), syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	select {
	case <-ctx.Done():
	case <-time.After(10 * time.Second):
		t.Error("SIGTERM did not end the context")
	}
}
