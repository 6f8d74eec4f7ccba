package integration

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"berth/demo/stage"
	"berth/internal/procs"
)

// built is the folder with the programs, made by the first test that needs them.
var built = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "berth-integration-bin-")
	if err != nil {
		return "", err
	}
	binFolder = dir
	out, err := exec.Command("go", "build", "-o", dir, "../cmd/...").CombinedOutput()
	if err != nil {
		return "", errors.Join(err, errors.New(string(out)))
	}
	return dir, nil
})

var binFolder string // to be removed at the end

// ports is for all tests, so that none gets a port that another one is about to listen on.
var ports = procs.NewPorts()

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		if binFolder != "" {
			_ = os.RemoveAll(binFolder) // nothing can be done about it
		}
		os.Exit(code)
	}))
}

// programs returns the folder with berth and berthctl, built from this tree.
func programs(t *testing.T) string {
	t.Helper()
	dir, err := built()
	if err != nil {
		t.Fatalf("build: %v", err)
	}
	return dir
}

// told is what a program that ended by itself has said.
type told struct {
	out, err string
	code     int
}

// endsWithin is how long a program may take to see that it cannot do what it was told.
const endsWithin = 20 * time.Second

// run runs a program in an empty folder until it ends. BERTH_ variables of the environment are left out.
func run(t *testing.T, dir, program string, args ...string) told {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), endsWithin)
	defer cancel()
	cmd := exec.CommandContext(ctx, filepath.Join(programs(t), program), args...)
	cmd.Dir = dir
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + dir}
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	err := cmd.Run()
	if ctx.Err() != nil {
		t.Fatalf("%s %s has not ended within %s; it said:\n%s", program, strings.Join(args, " "), endsWithin, errs.String())
	}
	if err != nil && !errors.As(err, new(*exec.ExitError)) {
		t.Fatal(err)
	}
	return told{out.String(), errs.String(), cmd.ProcessState.ExitCode()}
}

// cluster starts a small cluster and ends it with the test. A failed test shows the last lines of its processes.
func cluster(t *testing.T, cfg stage.Config) *stage.Stage {
	t.Helper()
	cfg.Bin, cfg.Ports = programs(t), ports
	s, err := stage.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Log(s.Logs(10))
		}
		if err := s.Close(stage.Patience); err != nil {
			t.Errorf("cleaning up: %v", err)
		}
	})
	for _, roles := range [][]*stage.Role{s.Peers, s.Routers, s.Agents} {
		if err := s.Start(roles); err != nil {
			t.Fatal(err)
		}
	}
	return s
}

// until fails the test unless check returns nil within limit.
func until(t *testing.T, limit time.Duration, check func(context.Context) error) {
	t.Helper()
	if err := stage.Until(t.Context(), limit, check); err != nil {
		t.Fatal(err)
	}
}

// last is the last line of a text: where programs say why they end.
func last(text string) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return lines[len(lines)-1]
}
