package process

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"berth/agent/shim"
	"berth/fleet"
)

// outputPatience is how long the rest of an engine's output is waited for when all of its processes are gone.
const outputPatience = time.Second

// starter starts engines as children of this process.
type starter struct {
	claims []fleet.Claim
	folder string
	group  group // the shim's; "": there are no cgroups
	v2     bool
	// started is called when an engine was started, before anybody relies on it.
	started func()

	mu   sync.Mutex // held while a child is being started, so that reaping does not take it for an orphan
	last ident
	made int // groups for engines
}

// Start implements [shim.Starter]. The engine dies with this process: the parent-death signal is bound to the thread that
// forked, so that thread is kept for the engine's life (golang.org/issue/27505).
func (s *starter) Start(x shim.Exec) (shim.Process, error) {
	r, w, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	e := &engine{starter: s, output: r, done: make(chan struct{}), drained: make(chan struct{})}
	e.cmd = exec.Command(x.Args[0], x.Args[1:]...)
	e.cmd.Env = append(x.Env[:len(x.Env):len(x.Env)], engineMark+s.folder, claimed(s.claims))
	e.cmd.Dir, e.cmd.Stdout, e.cmd.Stderr = x.Dir, w, w
	e.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGKILL}
	started := make(chan error, 1)
	go e.live(started) // joined through done, which whoever starts an engine waits for
	err = <-started
	_ = w.Close()
	if err != nil {
		_ = r.Close()
		return nil, err
	}
	s.started()
	go func() { // joined through drained
		defer close(e.drained)
		defer r.Close()
		_, _ = io.Copy(x.Output, r)
	}()
	return e, nil
}

// engine is a child process and all that comes of it.
type engine struct {
	starter *starter
	cmd     *exec.Cmd
	output  *os.File
	id      ident
	group   *group
	done    chan struct{}
	drained chan struct{}
}

func (e *engine) live(started chan<- error) {
	runtime.LockOSThread() // never unlocked: the thread ends with this function
	err := e.starter.fork(e)
	started <- err
	if err != nil {
		return
	}
	defer close(e.done)
	_ = e.cmd.Wait() // its state says how it ended
}

// fork starts the child in its cgroup, on the calling thread.
func (s *starter) fork(e *engine) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	leave, err := s.enter(e)
	if err != nil {
		return err
	}
	defer leave()
	if err := e.cmd.Start(); err != nil {
		return err
	}
	id, err := identify(e.cmd.Process.Pid)
	if err != nil { // a child that is not waited for yet has its entry
		return errors.Join(fmt.Errorf("identify the engine: %w", err), e.cmd.Process.Kill(), e.cmd.Wait())
	}
	e.id, s.last = id, id
	return nil
}

// enter sees to it that the child is born in a cgroup of its own. Version 2 can do so in the fork; in version 1 the
// thread that forks is there for a moment.
func (s *starter) enter(e *engine) (leave func(), err error) {
	if s.group == "" {
		return func() {}, nil
	}
	s.made++
	g := s.group.engine(s.made)
	if err := mkdir(string(g)); err != nil {
		return nil, err
	}
	e.group = &g
	if !s.v2 {
		return func() { _ = s.group.joinThread() }, g.joinThread()
	}
	dir, err := os.Open(string(g))
	if err != nil {
		return nil, err
	}
	e.cmd.SysProcAttr.UseCgroupFD, e.cmd.SysProcAttr.CgroupFD = true, int(dir.Fd())
	return func() { _ = dir.Close() }, nil
}

func (s *starter) newest() ident {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.last
}

// reap takes leave of orphans that the engine left behind and that have ended; this process is their reaper.
func (s *starter) reap(context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	all, err := processes()
	if err != nil {
		return nil // the next round tries again
	}
	for _, p := range all {
		if p.ended() && p.ppid == os.Getpid() && p.pid != s.last.PID {
			_, _ = unix.Wait4(p.pid, nil, unix.WNOHANG, nil)
		}
	}
	return nil
}

// Done implements [shim.Process].
func (e *engine) Done() <-chan struct{} { return e.done }

// Exit implements [shim.Process].
func (e *engine) Exit() fleet.Exit {
	status, ok := e.cmd.ProcessState.Sys().(syscall.WaitStatus)
	if ok && status.Signaled() {
		return fleet.Exit{Code: -1, Signal: unix.SignalName(status.Signal())}
	}
	return fleet.Exit{Code: e.cmd.ProcessState.ExitCode()}
}

// Terminate implements [shim.Process].
func (e *engine) Terminate() { _ = e.cmd.Process.Signal(syscall.SIGTERM) } // an error means that it has ended

// Kill implements [shim.Process].
func (e *engine) Kill(ctx context.Context) error {
	t := tree{mark: engineMark + e.starter.folder, leader: e.id, group: e.group, descent: true}
	if err := t.kill(ctx); err != nil {
		return err
	}
	_ = e.starter.reap(ctx)
	if e.group != nil {
		e.group.remove()
	}
	_ = e.output.SetReadDeadline(time.Now().Add(outputPatience))
	select {
	case <-e.done:
	case <-ctx.Done():
		return ctx.Err()
	}
	<-e.drained
	return nil
}
