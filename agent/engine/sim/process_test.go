package sim

import (
	"bufio"
	"context"
	"encoding/json"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// process is the engine as a real one: this test binary, started again.
type process struct {
	t    *testing.T
	cmd  *exec.Cmd
	log  *bufio.Scanner
	text strings.Builder
}

func startProcess(t *testing.T, args ...string) *process {
	t.Helper()
	line, err := json.Marshal(args)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), argsVar+"="+string(line))
	stderr, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill() })
	return &process{t: t, cmd: cmd, log: bufio.NewScanner(stderr)}
}

// until reads the log to the first line with text.
func (p *process) until(text string) string {
	p.t.Helper()
	for p.log.Scan() {
		p.text.WriteString(p.log.Text() + "\n")
		if strings.Contains(p.log.Text(), text) {
			return p.log.Text()
		}
	}
	p.t.Fatalf("the log ended without %q:\n%s", text, p.text.String())
	return ""
}

func (p *process) wantExit(code int) {
	p.t.Helper()
	for p.log.Scan() {
		p.text.WriteString(p.log.Text() + "\n")
	}
	_ = p.cmd.Wait()
	if got := p.cmd.ProcessState.ExitCode(); got != code {
		p.t.Errorf("exit code %d, want %d; its log:\n%s", got, code, p.text.String())
	}
}

func (p *process) signal(s syscall.Signal) {
	p.t.Helper()
	if err := p.cmd.Process.Signal(s); err != nil {
		p.t.Fatal(err)
	}
}

func TestProcessOnAUnixSocket(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "e.sock")
	p := startProcess(t, "m", "--uds", socket, "--load-time", "20ms", "--fault", `{"ignore_term":true}`, "--enable-faults")
	p.until("engine ready")
	tr := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", socket)
	}}
	defer tr.CloseIdleConnections()
	client := &http.Client{Transport: tr}
	p.signal(syscall.SIGTERM)
	p.until("SIGTERM ignored")
	resp, err := client.Post("http://sim/sim/fault", "application/json", strings.NewReader("{}"))
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	p.signal(syscall.SIGTERM)
	p.wantExit(0)
}

func TestProcessExitCodes(t *testing.T) {
	startProcess(t, "m", "--port", "-1", "--fault", `{"crash_after":"1ms","crash_code":42}`).wantExit(42)
	startProcess(t, "m", "--fault", `{"fail_load_after":"1ms"}`).wantExit(1)
	startProcess(t, "m", "--nonsense").wantExit(64)
	startProcess(t, "--port", "-1").wantExit(64)
	startProcess(t, "m", "--port", "-1", "--host", "0.0.0.0").wantExit(1) // not without --insecure-no-tls
	startProcess(t, "--help").wantExit(0)
}

func TestChildOutlivesTheEngine(t *testing.T) {
	p := startProcess(t, "m", "--port", "-1", "--fault", `{"fork_child":"1h"}`)
	line := p.until("outlives the engine")
	found := regexp.MustCompile(`pid=(\d+)`).FindStringSubmatch(line)
	if found == nil {
		t.Fatalf("no pid in %q", line)
	}
	pid, err := strconv.Atoi(found[1])
	if err != nil {
		t.Fatal(err)
	}
	p.until("engine ready")
	p.signal(syscall.SIGKILL)
	p.wantExit(-1)
	if err := syscall.Kill(pid, 0); err != nil {
		t.Errorf("the child is gone: %v", err)
	}
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Error(err)
	}
}
