package procs

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"time"
)

// Process is one program that a group has started.
type Process struct {
	Name string

	cmd  *exec.Cmd
	log  *tail
	done chan struct{}
	err  error // of Wait, once done is closed
}

// Start starts a program under a name. Its standard output and error are kept as the process's log. It gets a process group of its own, so that
// a Ctrl-C on the terminal is for the caller alone, who then ends it in order.
func (g *Group) Start(name string, argv ...string) (*Process, error) {
	p := &Process{Name: name, cmd: exec.Command(argv[0], argv[1:]...), log: newTail(keepLines), done: make(chan struct{})}
	p.cmd.Env = append(os.Environ(), mark+g.dir)
	p.cmd.Dir = g.dir
	p.cmd.Stdout, p.cmd.Stderr = p.log, p.log
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	// A child that outlives the process may hold its output; that is no reason to wait for the child.
	p.cmd.WaitDelay = outputPatience
	if err := p.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	go func() { // ends with the process, which Close sees to
		p.err = p.cmd.Wait()
		close(p.done)
	}()
	g.mu.Lock()
	defer g.mu.Unlock()
	g.all = append(g.all, p)
	return p, nil
}

// PID is the process's id.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Done is closed when the process has ended.
func (p *Process) Done() <-chan struct{} { return p.done }

// Alive says whether the process runs.
func (p *Process) Alive() bool {
	select {
	case <-p.done:
		return false
	default:
		return true
	}
}

// Signal sends a signal to the process; it fails if the process has ended.
func (p *Process) Signal(s os.Signal) error { return p.cmd.Process.Signal(s) }

// Kill ends the process by SIGKILL and waits until it is gone. What it has started goes on.
func (p *Process) Kill() error {
	if err := p.Signal(syscall.SIGKILL); err != nil {
		return fmt.Errorf("kill %s: %w", p.Name, err)
	}
	<-p.done
	return nil
}

// ExitCode waits for the end of the process and returns its code; -1 if a signal ended it.
func (p *Process) ExitCode() int {
	<-p.done
	return p.cmd.ProcessState.ExitCode()
}

// Log returns the last n lines of the process's output.
func (p *Process) Log(n int) []string { return p.log.last(n) }

// tail keeps the last lines of what is written to it.
type tail struct {
	mu    sync.Mutex
	limit int
	lines []string
	part  string
}

const (
	keepLines      = 400
	outputPatience = 200 * time.Millisecond
)

func newTail(limit int) *tail { return &tail{limit: limit} }

// Write implements io.Writer.
func (t *tail) Write(b []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	lines := strings.Split(t.part+string(b), "\n")
	t.part = lines[len(lines)-1]
	t.lines = append(t.lines, lines[:len(lines)-1]...)
	if over := len(t.lines) - t.limit; over > 0 {
		t.lines = append([]string(nil), t.lines[over:]...)
	}
	return len(b), nil
}

func (t *tail) last(n int) []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	lines := t.lines
	if t.part != "" {
		lines = append(lines[:len(lines):len(lines)], t.part)
	}
	return append([]string(nil), lines[max(0, len(lines)-n):]...)
}
