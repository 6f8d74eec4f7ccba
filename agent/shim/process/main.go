package process

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"berth/agent/shim"
	"berth/internal/durable"
	"berth/internal/listen"
	"berth/internal/run"
)

// File descriptors that the agent hands to a shim, and the variable that tells the second stage from the first.
const (
	lockFD   = 3
	readyFD  = 4
	detached = "BERTH_SHIM_DETACHED"

	reapEvery = 30 * time.Second
)

// Main is what `berth shim --dir DIR` runs: the life of one shim, in the folder that the agent has prepared. It first
// starts itself once more and ends, so that the shim is nobody's child and no agent's death or neglect touches it. It
// returns when the shim was closed or killed, or when ctx ends, with nothing of the engine left.
func Main(ctx context.Context, dir string) error {
	if os.Getenv(detached) == "" {
		return detach()
	}
	for _, fd := range []int{lockFD, readyFD} {
		syscall.CloseOnExec(fd) // an engine must hold neither
	}
	lock, ready := os.NewFile(lockFD, lockFile), os.NewFile(readyFD, "ready")
	defer runtime.KeepAlive(lock) // the kernel unlocks it, when this process is gone
	err := live(ctx, folder(dir), lock, ready)
	if err != nil {
		_, _ = io.WriteString(ready, err.Error()) // whoever waits there is told; later nobody does
	}
	_ = ready.Close()
	return err
}

func detach() error {
	exe, err := os.Executable()
	if err != nil {
		return fmt.Errorf("shim: find this program: %w", err)
	}
	cmd := exec.Command(exe, os.Args[1:]...)
	cmd.Env = append(os.Environ(), detached+"=1")
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	cmd.ExtraFiles = []*os.File{os.NewFile(lockFD, lockFile), os.NewFile(readyFD, "ready")}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("shim: start the second stage: %w", err)
	}
	return cmd.Process.Release()
}

// live is the second stage.
func live(ctx context.Context, f folder, lock, ready *os.File) error {
	if err := unix.Flock(int(lock.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		return fmt.Errorf("shim: the lock of %s was not handed over: %w; shims are started by the agent", f, err)
	}
	syscall.Umask(0o077)
	if err := errors.Join(os.Chdir(string(f)), unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)); err != nil {
		return fmt.Errorf("shim: %w", err)
	}
	log := slog.New(slog.NewTextHandler(os.Stderr, nil))
	m := &member{folder: f, log: log}
	ln, err := m.prepare(ctx)
	if err != nil {
		m.leaveGroup()
		return fmt.Errorf("shim: %w", err)
	}
	_, _ = io.WriteString(ready, readyWord)
	_ = ready.Close()
	return m.run(ctx, ln)
}

// member is a shim in its process.
type member struct {
	folder  folder
	group   group // "" without
	self    ident
	starter *starter
	shim    *shim.Shim
	log     *slog.Logger

	recording sync.Mutex
}

// prepare opens the door, records who this is, and listens to the agent, in this order: who finds the record finds the
// door's address in it.
func (m *member) prepare(ctx context.Context) (net.Listener, error) {
	l, err := m.folder.launch()
	if err != nil {
		return nil, err
	}
	if m.self, err = identify(os.Getpid()); err != nil {
		return nil, err
	}
	m.starter = &starter{folder: string(m.folder), claims: l.Order.Claims, started: m.tryRecord}
	m.enterGroup(l.Shim)
	m.shim, err = shim.New(shim.Config{
		Launch: l, Network: listen.System, Policy: listen.Policy{InsecureNoTLS: l.InsecureNoTLS}, Starter: m.starter,
		Clock: bootClock, Output: shim.NewOutput(l.Logs), Logger: m.log,
		Keep: func(o shim.Order) error { return durable.WriteJSON(m.folder.file(orderFile), folderVersion, o) },
	})
	if err != nil {
		return nil, err
	}
	if err := m.shim.Listen(ctx); err != nil {
		return nil, err
	}
	if err := m.record(); err != nil {
		return nil, err
	}
	return m.socket()
}

// bootClock goes on while the machine is suspended.
// (DESIGN §8, rule 9.)
func bootClock() time.Duration {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &ts); err != nil {
		panic("process: CLOCK_BOOTTIME: " + err.Error()) // every Linux since 2.6.39 has it
	}
	return time.Duration(ts.Nano())
}

// enterGroup gives shim and engine cgroups of their own, if this process may; sessions and marks do without.
func (m *member) enterGroup(number uint64) {
	h := fnv.New32a()
	_, _ = h.Write([]byte(filepath.Dir(string(m.folder))))
	g, v2, err := makeGroup(fmt.Sprintf("berth-shim-%08x-%d", h.Sum32(), number))
	if err != nil {
		m.log.Warn("no cgroup for the engine: its processes are known by session and mark", "error", err)
		return
	}
	m.group, m.starter.group, m.starter.v2 = g, g, v2
}

// leaveGroup removes the cgroups of an engine that has ended; nobody can remove a group while this process is in it.
func (m *member) leaveGroup() {
	if m.group == "" {
		return
	}
	if err := group(filepath.Dir(string(m.group))).join(); err != nil {
		return // the agent removes it when it finds the shim gone
	}
	m.group.remove()
}

// record writes the state down as it is now, for an agent that finds the shim dead.
func (m *member) record() error {
	m.recording.Lock()
	defer m.recording.Unlock()
	now, cancel := context.WithCancel(context.Background())
	cancel()
	return durable.WriteJSON(m.folder.file(stateFile), folderVersion,
		state{Shim: m.self, Engine: m.starter.newest(), Group: string(m.group), Status: m.shim.Status(now, 0)})
}

// tryRecord records; a disk that fails does not end an engine.
func (m *member) tryRecord() {
	if err := m.record(); err != nil {
		m.log.Error("cannot record the shim's state", "error", err)
	}
}

// recorder records each new status.
func (m *member) recorder(ctx context.Context) error {
	for after := uint64(0); ctx.Err() == nil; {
		st := m.shim.Status(ctx, after)
		if st.Version > after {
			after = st.Version
			m.tryRecord()
		}
	}
	return nil
}

// socket listens in the folder, by a name relative to it: the full path may be longer than a socket's may be.
func (m *member) socket() (net.Listener, error) {
	if err := durable.Remove(socketFile); err != nil {
		return nil, err
	}
	ln, err := net.Listen("unix", socketFile)
	if err != nil {
		return nil, err
	}
	ln.(*net.UnixListener).SetUnlinkOnClose(false) // the folder goes as a whole
	return ln, nil
}

func (m *member) run(ctx context.Context, ln net.Listener) error {
	life, end := context.WithCancel(ctx)
	defer end()
	c := newControl(m.shim, end)
	serving, stopServing := context.WithCancel(context.WithoutCancel(ctx))
	defer stopServing()
	served := make(chan error, 1)
	go func() {
		served <- listen.ServeHTTP(serving, ln, c, listen.ServerOptions{Drain: time.Second, Log: m.log})
	}()

	g := run.NewGroup(life)
	g.Add("shim", m.shim.Run)
	g.Add("recorder", m.recorder)
	g.Add("reaper", func(ctx context.Context) error { return run.Every(ctx, reapEvery, m.starter.reap) })
	err := g.Wait()
	if c.closing.Load() {
		err = errors.Join(err, os.RemoveAll(string(m.folder)))
	} else {
		err = errors.Join(err, m.record())
	}
	m.leaveGroup()
	close(c.ended)
	stopServing()
	return errors.Join(err, <-served)
}
