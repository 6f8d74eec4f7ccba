//go:build cgo && linux

package nvml

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"berth/agent/gpu"
)

// childLibrary tells this test's own program to be the probe's child.
const childLibrary = "BERTH_TEST_NVML_LIBRARY"

func TestMain(m *testing.M) {
	path, ok := os.LookupEnv(childLibrary)
	if !ok {
		goleak.VerifyTestMain(m)
		return
	}
	if err := Serve(context.Background(), path, os.Stdin, os.Stdout); err != nil {
		os.Exit(3)
	}
	os.Exit(0)
}

func fakeLibrary(t *testing.T) string {
	t.Helper()
	if _, err := exec.LookPath("gcc"); err != nil {
		t.Skip("needs gcc: the fake driver library is compiled")
	}
	path := filepath.Join(t.TempDir(), "libnvidia-ml.so.1")
	if out, err := exec.Command("gcc", "-shared", "-fPIC", "-o", path, "testdata/fakenvml.c").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return path
}

// TestTheTruePath goes from the agent's inventory through the child process, cgo and the dynamic linker into a driver library that has only some
// of the functions.
func TestTheTruePath(t *testing.T) {
	t.Setenv(childLibrary, fakeLibrary(t))
	probe := gpu.NewProbe(os.Args[0])
	defer closeProbe(t, probe)
	inv, err := gpu.NewMeasured("nvml", probe, func(int) bool { return true }).Measure(context.Background())
	if err != nil || len(inv.GPUs) != 2 || inv.Driver != "999.1" {
		t.Fatalf("got %+v, %v", inv, err)
	}
	if g := inv.GPUs[0]; g.UUID != "GPU-fake-0" || g.Class != "h100-sxm-80gb" || g.Health != "healthy" || g.Foreign {
		t.Errorf("card 0: %+v", g)
	}
	if g := inv.GPUs[1]; g.Health != "unhealthy" || !strings.Contains(g.Reason, "a reset of the card") {
		t.Errorf("card 1: %+v", g)
	}
}

// TestWithoutADriver: a node with zero cards and a clear line, never a crash.
func TestWithoutADriver(t *testing.T) {
	t.Setenv(childLibrary, "/nonexistent/libnvidia-ml.so.1")
	probe := gpu.NewProbe(os.Args[0])
	defer closeProbe(t, probe)
	inv, err := gpu.NewMeasured("nvml", probe, func(int) bool { return true }).Measure(context.Background())
	if err != nil || len(inv.GPUs) != 0 || inv.Note != "no NVIDIA driver on this machine: libnvidia-ml.so.1 is not here" {
		t.Errorf("got %+v, %v", inv, err)
	}
}

func closeProbe(t *testing.T, p *gpu.Probe) {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	if err := p.Close(ctx); err != nil && !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}
