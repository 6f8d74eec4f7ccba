package process

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"
	"golang.org/x/sys/unix"

	"berth/agent/shim"
	"berth/fleet"
	"berth/fleet/wire"
)

// patience bounds every wait of these tests; none of them waits for time to pass.
const patience = 30 * time.Second

// TestMain makes this binary also the programs that the tests run.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 {
		switch os.Args[1] {
		case "shim":
			os.Exit(shimProgram(os.Args[2:]))
		case "agent":
			os.Exit(agentProgram(os.Args[2], os.Args[3]))
		case "engine":
			os.Exit(engineProgram(os.Args[2], os.Args[3:]))
		case "hold":
			signal.Ignore(syscall.SIGTERM)
			os.Stdout.WriteString("held\n")
			select {}
		}
	}
	goleak.VerifyTestMain(m)
}

func shimProgram(args []string) int {
	flags := flag.NewFlagSet("shim", flag.ContinueOnError)
	dir := flags.String("dir", "", "")
	if flags.Parse(args) != nil {
		return 64
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	if err := Main(ctx, *dir); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// agentProgram starts a shim, says so, and lives until it is killed.
func agentProgram(dir, launch string) int {
	var l shim.Launch
	err := json.Unmarshal([]byte(launch), &l)
	if err == nil {
		var p *Processes
		if p, err = newProcesses(dir); err == nil {
			_, err = p.Start(context.Background(), l)
		}
	}
	if err != nil {
		fmt.Println(err)
		return 1
	}
	fmt.Println("started")
	select {}
}

// engineProgram listens and answers; with "escape" it first leaves a child in a session of its own that knows nothing of
// Berth's marks, as a daemon does.
func engineProgram(addr string, modes []string) int {
	for _, mode := range modes {
		if mode == "escape" {
			child := exec.Command("/proc/self/exe", "hold")
			child.Env = []string{"HELD=1"}
			child.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
			out, err := child.StdoutPipe()
			if err == nil {
				err = child.Start()
			}
			if err == nil {
				_, err = out.Read(make([]byte, 1)) // it holds
			}
			if err != nil {
				fmt.Println(err)
				return 1
			}
			fmt.Println("child", child.Process.Pid)
		}
	}
	ln, err := net.Listen("tcp", addr)
	if err != nil {
		fmt.Println(err)
		return 1
	}
	fmt.Println("engine serves", os.Getpid())
	stop := make(chan os.Signal, 1)
	signal.Notify(stop, syscall.SIGTERM)
	go http.Serve(ln, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, os.Getpid()) }))
	<-stop
	fmt.Println("engine ends")
	return 0
}

func self() string {
	exe, err := os.Executable()
	if err != nil {
		panic(err)
	}
	return exe
}

func newProcesses(dir string) (*Processes, error) {
	return New(Config{Dir: filepath.Join(dir, "shims"), LogDir: filepath.Join(dir, "logs"), Command: []string{self(), "shim"}, Logger: slog.New(slog.DiscardHandler)})
}

// freePort gives a loopback address that was free a moment ago.
func freePort(t *testing.T) string {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	return ln.Addr().String()
}

func launch(t *testing.T, modes ...string) shim.Launch {
	t.Helper()
	engine := freePort(t)
	spec := fleet.DefaultedSpec()
	return shim.Launch{
		Order: wire.Order{
			ID: fleet.Index{Epoch: 1, N: 1}, Action: wire.ActionRun, Replica: "r-1.1.1", Model: "m", Start: 1, Spec: spec,
			Ranks: []wire.RankAddress{{Node: "gpu-017"}},
		},
		Program: shim.Program{Args: append([]string{self(), "engine", engine}, modes...), Engine: engine},
		Recipe:  shim.Recipe{Health: "/health", Token: &shim.Probe{Path: "/v1/completions", Body: json.RawMessage(`{}`)}, Every: fleet.Duration(5 * time.Millisecond)},
		Bind:    "127.0.0.1", FirstPort: 0, LastPort: 0,
		Grace: fleet.Duration(5 * time.Second),
	}
}

// rig is a data directory and the shims in it.
type rig struct {
	*testing.T
	dir string
	p   *Processes
}

func newRig(t *testing.T) *rig {
	t.Helper()
	g := &rig{T: t, dir: filepath.Join(t.TempDir(), strings.Repeat("a-long-name/", 9))} // longer than a socket's path may be
	var err error
	if g.p, err = newProcesses(g.dir); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(g.cleanUp)
	return g
}

// cleanUp ends every shim that a test has left, and fails if something of one stays.
func (g *rig) cleanUp() {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	found, err := g.p.Find(ctx)
	if err != nil {
		g.Error(err)
	}
	for _, h := range found.Live {
		if err := h.Kill(ctx); err != nil {
			g.Error(err)
		}
	}
	if _, err := g.p.Find(ctx); err != nil { // buries what a killed shim left
		g.Error(err)
	}
	all, err := processes()
	if err != nil {
		g.Error(err)
	}
	for _, p := range all {
		if dir, ok := environ(p.pid, engineMark); ok && strings.HasPrefix(dir, g.dir) && !p.ended() {
			g.Errorf("process %d of %s is left", p.pid, dir)
		}
	}
}

func (g *rig) start(l shim.Launch) shim.Handle {
	g.Helper()
	ctx, cancel := context.WithTimeout(g.Context(), patience)
	defer cancel()
	h, err := g.p.Start(ctx, l)
	if err != nil {
		g.Fatal(err)
	}
	return h
}

func (g *rig) find() shim.Found {
	g.Helper()
	ctx, cancel := context.WithTimeout(g.Context(), patience)
	defer cancel()
	found, err := g.p.Find(ctx)
	if err != nil {
		g.Fatal(err)
	}
	return found
}

func (g *rig) until(h shim.Handle, what string, pleases func(shim.Status) bool) shim.Status {
	g.Helper()
	ctx, cancel := context.WithTimeout(g.Context(), patience)
	defer cancel()
	for after := uint64(0); ; {
		st, err := h.Status(ctx, after)
		if err != nil || ctx.Err() != nil {
			g.Fatalf("waiting for %s: %v, %v; status %+v", what, err, ctx.Err(), st)
		}
		if pleases(st) {
			return st
		}
		after = st.Version
	}
}

func (g *rig) ready(h shim.Handle) shim.Status {
	g.Helper()
	return g.until(h, "ready", func(s shim.Status) bool { return s.Phase == shim.Ready })
}

func (g *rig) stop(h shim.Handle) shim.Status {
	g.Helper()
	o := shim.Order{Order: h.Launch().Order}
	o.ID.N, o.Action, o.Drain = o.ID.N+100, wire.ActionStop, &fleet.Drain{Reason: "deleted"}
	if err := h.Order(g.Context(), o); err != nil {
		g.Fatal(err)
	}
	return g.until(h, "stopped", func(s shim.Status) bool { return s.Phase == shim.Stopped })
}

// ask sends a request through the door; the answer is the engine's process id.
func (g *rig) ask(st shim.Status) string {
	g.Helper()
	r, err := http.NewRequestWithContext(g.Context(), http.MethodPost, "http://"+st.Door.Address+"/v1/completions", bytes.NewReader([]byte("{}")))
	if err != nil {
		g.Fatal(err)
	}
	r.Header.Set(wire.HeaderReplicaKey, st.Door.Key)
	t := &http.Transport{DisableKeepAlives: true}
	res, err := t.RoundTrip(r)
	if err != nil {
		g.Fatal(err)
	}
	defer res.Body.Close()
	b, _ := io.ReadAll(res.Body)
	if res.StatusCode != http.StatusOK {
		g.Fatalf("status %d: %s", res.StatusCode, b)
	}
	return string(b)
}

// exit is a process that somebody else waits for, to be waited for here.
type exit struct{ fd int }

func watchExit(t *testing.T, pid int) exit {
	t.Helper()
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		t.Fatalf("process %d: %v", pid, err)
	}
	t.Cleanup(func() { unix.Close(fd) })
	return exit{fd}
}

func (e exit) wait(t *testing.T, what string) {
	t.Helper()
	n, err := unix.Poll([]unix.PollFd{{Fd: int32(e.fd), Events: unix.POLLIN}}, int(patience.Milliseconds()))
	if err != nil || n != 1 {
		t.Fatalf("%s did not end: %v", what, err)
	}
}

func (e exit) running() bool {
	n, err := unix.Poll([]unix.PollFd{{Fd: int32(e.fd), Events: unix.POLLIN}}, 0)
	return err == nil && n == 0
}

func recorded(t *testing.T, h shim.Handle) state {
	t.Helper()
	s, err := h.(*handle).folder.state()
	if err != nil || s.Shim.PID == 0 || s.Engine.PID == 0 {
		t.Fatalf("recorded: %+v, %v", s, err)
	}
	return s
}
