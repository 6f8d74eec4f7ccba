package sim

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"sync"
	"syscall"
	"time"

	"berth/internal/listen"
)

// Main is the engine as a process: it reads args, runs until it is told to end and
// returns the exit code. SIGTERM and SIGINT are [Engine.Terminate]. Its log goes to
// stderr. ctx ending is as sudden as SIGKILL.
func Main(ctx context.Context, args []string, stderr io.Writer) int {
	cfg, err := ParseArgs(args)
	if errors.Is(err, flag.ErrHelp) {
		Usage(stderr)
		return 0
	}
	log := slog.New(slog.NewTextHandler(stderr, nil))
	cfg.Logger = log
	cfg.Spawn = func(d time.Duration) error { return spawnHolder(log, d) }
	var e *Engine
	if err == nil {
		e, err = New(cfg)
	}
	if err != nil {
		fmt.Fprintf(stderr, "berth engine: %v\n", err)
		return 64
	}
	return runProcess(ctx, e, stderr)
}

func runProcess(ctx context.Context, e *Engine, stderr io.Writer) int {
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGTERM, os.Interrupt)
	defer signal.Stop(signals)
	done := make(chan error, 1)
	go func() { done <- e.Run(ctx) }()
	stopWarning := warnExposed(ctx, e.cfg)
	defer stopWarning()
	for {
		select {
		case s := <-signals:
			e.cfg.Logger.Info("signal", "signal", s.String())
			e.Terminate()
		case err := <-done:
			if err != nil {
				fmt.Fprintf(stderr, "berth engine: %v\n", err)
			}
			return ExitCode(err)
		}
	}
}

// warnExposed says in the log, again and again, that the engine can be reached from
// other machines; it says nothing of loopback. stop waits for its end.
func warnExposed(ctx context.Context, cfg Config) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	var done sync.WaitGroup
	done.Go(func() {
		var addrs []string
		if cfg.UDS == "" && !cfg.Headless {
			addrs = append(addrs, cfg.address())
		}
		if cfg.NNodes > 1 && !cfg.Headless {
			addrs = append(addrs, cfg.master())
		}
		_ = listen.Policy{}.Warn(ctx, cfg.Logger, addrs...)
	})
	return func() { cancel(); done.Wait() }
}

// spawnHolder starts a process in a session of its own that lives for d whatever
// becomes of the engine: what a crashed engine's worker is that still holds its
// card. It keeps CUDA_VISIBLE_DEVICES, so that it can be found by what it holds.
func spawnHolder(log *slog.Logger, d time.Duration) error {
	cmd := exec.Command("sleep", strconv.FormatFloat(d.Seconds(), 'f', 3, 64))
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		return err
	}
	log.Warn("started a process that outlives the engine", "pid", cmd.Process.Pid, "for", d)
	return cmd.Process.Release()
}
