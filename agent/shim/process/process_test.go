package process

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"berth/agent/shim"
	"berth/fleet"
	"berth/fleet/wire"
	"berth/internal/durable"
)

// An agent that is killed leaves its shims; the next one finds them, and what it stops is gone as a whole (C45).
func TestShimOutlivesItsAgent(t *testing.T) {
	g := newRig(t)
	l, err := json.Marshal(launch(t))
	if err != nil {
		t.Fatal(err)
	}
	agent := exec.Command(self(), "agent", g.dir, string(l))
	out, err := agent.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := agent.Start(); err != nil {
		t.Fatal(err)
	}
	if line, _ := bufio.NewReader(out).ReadString('\n'); line != "started\n" {
		t.Fatalf("the agent said %q", line)
	}
	if err := agent.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = agent.Wait()

	found := g.find()
	if len(found.Live) != 1 || len(found.Dead)+len(found.Unmanaged) != 0 {
		t.Fatalf("found %+v", found)
	}
	h := found.Live[0]
	if again := h; again != h { // panics for a type that cannot be compared, and the agent compares
		t.Fatal("a handle is not itself")
	}
	st := g.ready(h)
	pid, err := strconv.Atoi(g.ask(st))
	if err != nil {
		t.Fatal(err)
	}
	r, err := h.Reading(t.Context())
	if err != nil || r.Admissions != 1 || r.Replica != "r-1.1.1" {
		t.Errorf("reading %+v, %v", r, err)
	}
	engine := watchExit(t, pid)
	g.stop(h)
	if engine.running() {
		t.Error("stopped was reported before the engine was gone")
	}
	if err := h.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if found := g.find(); len(found.Live)+len(found.Dead)+len(found.Unmanaged) != 0 {
		t.Errorf("after Close: %+v", found)
	}
	ln, err := net.Listen("tcp", st.Door.Address)
	if err != nil {
		t.Errorf("the door's port is not free: %v", err)
	} else {
		ln.Close()
	}
	logs, err := shim.ReadLogs(h.Launch().Logs, 10)
	if err != nil {
		t.Fatal(err)
	}
	defer logs.Close()
	lines := bufio.NewScanner(logs)
	if !lines.Scan() || !strings.HasPrefix(lines.Text(), "engine serves") {
		t.Errorf("the stopped engine's log begins with %q", lines.Text())
	}
}

// An engine does not outlive its shim, and neither does a child of it in a session of its own (C46).
func TestEngineDiesWithItsShim(t *testing.T) {
	for _, modes := range [][]string{nil, {"escape"}} {
		t.Run(fmt.Sprint(modes), func(t *testing.T) {
			g := newRig(t)
			h := g.start(launch(t, modes...))
			before := g.ready(h)
			s := recorded(t, h)
			engine, first := watchExit(t, s.Engine.PID), watchExit(t, s.Shim.PID)
			child := childOf(t, h)
			if err := syscall.Kill(s.Shim.PID, syscall.SIGKILL); err != nil {
				t.Fatal(err)
			}
			first.wait(t, "the shim")
			engine.wait(t, "the engine") // by the parent-death signal alone
			if _, err := h.Status(t.Context(), 0); !errors.Is(err, shim.ErrGone) {
				t.Errorf("a dead shim's handle gave %v", err)
			}
			found := g.find()
			if len(found.Dead) != 1 || len(found.Live) != 0 || found.Dead[0].Stopping || found.Dead[0].Stuck {
				t.Fatalf("found %+v", found)
			}
			if child != nil {
				if s.Group == "" {
					t.Skip("needs cgroups: without them a child that hides its origin is found only while its shim lives")
				}
				child.wait(t, "the escaped child")
			}
			again := g.start(found.Dead[0].Again())
			if err := found.Dead[0].Forget(); err != nil {
				t.Fatal(err)
			}
			after := g.ready(again)
			if after.Shim != before.Shim+1 || *after.Door != *before.Door || after.Restarts != 1 {
				t.Errorf("before %+v, after %+v", before, after)
			}
			g.ask(after)
		})
	}
}

// childOf watches the child that the engine's log tells of, if it does.
func childOf(t *testing.T, h shim.Handle) *exit {
	t.Helper()
	out, err := h.Logs(t.Context(), 10, false)
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	for lines := bufio.NewScanner(out); lines.Scan(); {
		if text, ok := strings.CutPrefix(lines.Text(), "child "); ok {
			pid, err := strconv.Atoi(text)
			if err != nil {
				t.Fatal(err)
			}
			e := watchExit(t, pid)
			return &e
		}
	}
	return nil
}

// The front process is killed hard; its child in a session of its own must be gone before the engine starts again (C46).
func TestRestartEndsTheWholeTree(t *testing.T) {
	g := newRig(t)
	h := g.start(launch(t, "escape"))
	g.ready(h)
	child := childOf(t, h)
	if child == nil {
		t.Fatal("no child")
	}
	if err := syscall.Kill(recorded(t, h).Engine.PID, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	st := g.until(h, "the exit", func(s shim.Status) bool { return s.Restarts == 1 })
	if child.running() {
		t.Error("the exit was reported while the child still ran")
	}
	if st.Exit == nil || st.Exit.Signal != "SIGKILL" || len(st.Exit.Log) == 0 {
		t.Errorf("exit %+v", st.Exit)
	}
	st = g.until(h, "the next engine", func(s shim.Status) bool { return s.Engine == 2 && s.Phase == shim.Ready })
	g.ask(st)
}

// A shim that dies while it stops its engine leaves word of that: what was ordered to stop is not started again.
func TestDeadWhileDraining(t *testing.T) {
	g := newRig(t)
	h := g.start(launch(t))
	g.ready(h)
	o := shim.Order{Order: h.Launch().Order}
	o.ID.N, o.Action = 7, wire.ActionStop
	o.Drain = &fleet.Drain{Reason: "deleted", Minimum: fleet.Duration(time.Hour), Deadline: fleet.Duration(time.Hour)}
	if err := h.Order(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	s := recorded(t, h)
	ended := watchExit(t, s.Shim.PID)
	if err := syscall.Kill(s.Shim.PID, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	ended.wait(t, "the shim")
	found := g.find()
	if len(found.Dead) != 1 || !found.Dead[0].Stopping || found.Dead[0].Newest == nil || found.Dead[0].Newest.ID.N != 7 {
		t.Fatalf("found %+v", found)
	}
	if _, err := g.p.Start(t.Context(), found.Dead[0].Again()); err == nil {
		t.Error("it was started again")
	}
}

// A recorded process id that now belongs to a stranger is left alone (C45).
func TestReusedPidIsLeftAlone(t *testing.T) {
	g := newRig(t)
	h := g.start(launch(t))
	g.ready(h)
	if err := h.Kill(t.Context()); err != nil {
		t.Fatal(err)
	}
	stranger := exec.Command(self(), "hold")
	stranger.SysProcAttr = &syscall.SysProcAttr{Setsid: true} // it even leads a session, as an engine does
	out, err := stranger.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := stranger.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = stranger.Process.Kill(); _ = stranger.Wait() }()
	if _, err := out.Read(make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	f := h.(*handle).folder
	s := recorded(t, h)
	s.Shim.PID, s.Engine.PID = stranger.Process.Pid, stranger.Process.Pid
	if err := durable.WriteJSON(f.file(stateFile), folderVersion, s); err != nil {
		t.Fatal(err)
	}
	stays := watchExit(t, stranger.Process.Pid)
	if found := g.find(); len(found.Dead) != 1 || found.Dead[0].Stuck {
		t.Errorf("found %+v", found)
	}
	if err := h.Kill(t.Context()); err != nil {
		t.Error(err)
	}
	if !stays.running() {
		t.Error("the stranger was killed")
	}
}

// What has lost its folder lives on, holds its cards, and is not taken for a shim that has ended: a second engine would be started on the same cards.
func TestLostFolderIsUnmanaged(t *testing.T) {
	g := newRig(t)
	l := launch(t)
	l.Order.Claims = []fleet.Claim{{GPU: "GPU-a"}, {GPU: "GPU-b", Share: fleet.GiB}}
	h := g.start(l)
	g.ready(h)
	s := recorded(t, h)
	f := h.(*handle).folder
	away := string(f) + ".away"
	if err := os.Rename(string(f), away); err != nil {
		t.Fatal(err)
	}
	found := g.find()
	pids := map[int]bool{}
	for _, u := range found.Unmanaged {
		pids[u.PID] = true
		if !slices.Equal(u.GPUs, []string{"GPU-a", "GPU-b"}) {
			t.Errorf("%s, process %d, holds %q", u.What, u.PID, u.GPUs)
		}
	}
	if _, err := h.Status(t.Context(), 0); err == nil || errors.Is(err, shim.ErrGone) {
		t.Errorf("a shim that lives without its folder: %v", err)
	}
	if !pids[s.Shim.PID] || !pids[s.Engine.PID] || len(found.Live)+len(found.Dead) != 0 {
		t.Errorf("found %+v; want shim %d and engine %d", found, s.Shim.PID, s.Engine.PID)
	}
	if !s.Shim.alive() || !s.Engine.alive() {
		t.Error("they were not left alone")
	}
	if err := os.Rename(away, string(f)); err != nil {
		t.Fatal(err)
	}
}

func TestStartThatFailsLeavesNothing(t *testing.T) {
	g := newRig(t)
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	l := launch(t)
	l.FirstPort = ln.Addr().(*net.TCPAddr).Port
	l.LastPort = l.FirstPort
	if _, err := g.p.Start(t.Context(), l); err == nil || !strings.Contains(err.Error(), "in use") {
		t.Errorf("a door without a free port: %v", err)
	}
	g.p.cfg.Command = []string{"/nonexistent/berth", "shim"}
	if _, err := g.p.Start(t.Context(), launch(t)); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a program that is not there: %v", err)
	}
	if found := g.find(); len(found.Live)+len(found.Dead)+len(found.Unmanaged) != 0 {
		t.Errorf("left: %+v", found)
	}
}

// A shim that does not run any more, but is not dead, is still ended by Kill, with its engine.
func TestKillOfAHungShim(t *testing.T) {
	g := newRig(t)
	h := g.start(launch(t))
	g.ready(h)
	s := recorded(t, h)
	engine := watchExit(t, s.Engine.PID)
	if err := syscall.Kill(s.Shim.PID, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	for { // the signal reaches each thread in its own time, and nobody but a parent is told
		if p, err := readProc(s.Shim.PID); err != nil || p.state == 'T' {
			break
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), answerWithin)
	defer cancel()
	if _, err := h.Reading(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a reading of a stopped process: %v", err)
	}
	if err := h.Kill(ctx); err != nil {
		t.Error(err)
	}
	engine.wait(t, "the engine")
}

func TestLogsFollow(t *testing.T) {
	g := newRig(t)
	h := g.start(launch(t))
	g.ready(h)
	out, err := h.Logs(t.Context(), 1, true)
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	lines := bufio.NewScanner(out)
	if !lines.Scan() || !strings.HasPrefix(lines.Text(), "engine serves") {
		t.Fatalf("first line %q, %v", lines.Text(), lines.Err())
	}
	g.stop(h)
	if !lines.Scan() || lines.Text() != "engine ends" {
		t.Errorf("then %q, %v", lines.Text(), lines.Err())
	}
}

func TestFilesAreTheOwnersAlone(t *testing.T) {
	g := newRig(t)
	h := g.start(launch(t))
	g.ready(h)
	f := h.(*handle).folder
	for _, name := range []string{launchFile, stateFile, lockFile, logFile} {
		info, err := os.Stat(f.file(name))
		if err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v, %v", name, info, err)
		}
	}
	log, err := os.ReadFile(f.file(logFile))
	if err != nil {
		t.Fatal(err)
	}
	st := g.ready(h)
	if strings.Contains(string(log), st.Door.Key) {
		t.Error("the key is in the log")
	}
}

func TestParseHierarchies(t *testing.T) {
	hybrid := `30 1 0:26 / /sys/fs/cgroup/freezer rw - cgroup cgroup rw,freezer
31 1 0:27 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw
`
	got := parseHierarchies(hybrid, "6:freezer:/jobs/7\n0::/system.slice/berth-agent.service\n")
	want := []hierarchy{{"/sys/fs/cgroup/unified/system.slice/berth-agent.service", true}, {"/sys/fs/cgroup/freezer/jobs/7", false}}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("got %v, want %v", got, want)
	}
	got = parseHierarchies("30 1 0:26 /docker/abc /sys/fs/cgroup rw - cgroup2 cgroup rw\n", "0::/docker/abc/sub\n")
	if fmt.Sprint(got) != fmt.Sprint([]hierarchy{{"/sys/fs/cgroup/sub", true}}) {
		t.Errorf("in a container: %v", got)
	}
}
