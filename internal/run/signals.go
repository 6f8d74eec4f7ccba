package run

import (
	"context"
	"os"
	"os/signal"
	"sync"
	"syscall"
)

// Signals gives a context that ends at the first SIGINT or SIGTERM. A second one ends the process at once, with status
// 128 + its number as shells have it, because an operator who presses Ctrl-C twice means it. The function it gives ends
// the context and the watch, and returns when the watch has ended; it
// may be called again.
func Signals(ctx context.Context) (context.Context, func()) {
	ch := make(chan os.Signal, 2)
	signal.Notify(ch, os.Interrupt, syscall.SIGTERM)
	ctx, stop := watch(ctx, ch, os.Exit)
	return ctx, func() {
		signal.Stop(ch)
		stop()
	}
}

// watch is Signals with its two sides open to tests.
func watch(ctx context.Context, ch <-chan os.Signal, exit func(int)) (context.Context, func()) {
	ctx, cancel := context.WithCancel(ctx)
	quit, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for first := true; ; first = false {
			select {
			case <-quit:
				return
			case s := <-ch:
				if !first {
					exit(status(s))
				}
				cancel()
			}
		}
	}()
	return ctx, sync.OnceFunc(func() {
		cancel()
		close(quit)
		<-done
	})
}

func status(s os.Signal) int {
	if n, ok := s.(syscall.Signal); ok {
		return 128 + int(n)
	}
	return 1
}
