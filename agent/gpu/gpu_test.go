package gpu

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"berth/fleet"
)

// childMode tells this test's own program to be a probe's child.
const childMode = "BERTH_TEST_PROBE"

func TestMain(m *testing.M) {
	switch os.Getenv(childMode) {
	case "":
		goleak.VerifyTestMain(m)
	case "good":
		reading := Reading{Cards: []Card{{UUID: "g0", Name: "NVIDIA L40S", MemoryTotal: 48305799168, ProcessesKnown: true}}}
		_ = Serve(context.Background(), os.Stdin, os.Stdout, fixed{reading})
	case "hang":
		<-time.After(time.Hour) // a select without cases would be found to be a deadlock
	case "dies":
		os.Exit(127) // as the dynamic linker does for a function that the driver lacks
	}
}

type fixed struct{ r Reading }

func (f fixed) Read(context.Context) (Reading, error) { return f.r, nil }

func TestClassesFromTheNamesThatDriversGive(t *testing.T) {
	const mib = 1 << 20
	for _, c := range []struct {
		name string
		mib  int64
		want string
	}{
		{"NVIDIA H100 80GB HBM3", 81559, "h100-sxm-80gb"}, {"NVIDIA H100 PCIe", 81559, "h100-pcie-80gb"}, {"NVIDIA H200", 143771, "h200-141gb"},
		{"NVIDIA A100-SXM4-40GB", 40960, "a100-sxm-40gb"}, {"NVIDIA A100 80GB PCIe", 81920, "a100-pcie-80gb"}, {"NVIDIA L40S", 46068, "l40s-48gb"},
		{"Tesla T4", 15360, "t4-16gb"}, {"NVIDIA GeForce RTX 4090", 24564, "rtx-4090-24gb"}, {"", 8192, "gpu-8gb"},
	} {
		if got := ClassOf(c.name, c.mib*mib); got != c.want {
			t.Errorf("%s with %d MiB: %s, want %s", c.name, c.mib, got, c.want)
		}
	}
}

func TestWhatCannotBeAskedIsUnknownAndNotFree(t *testing.T) {
	now := Reading{Cards: []Card{{UUID: "a", ProcessesKnown: true}, {UUID: "b", ProcessesKnown: true, Processes: []int{4}}, {UUID: "c"}}}
	m := NewMeasured("test", fixed{now}, func(pid int) bool { return pid != 4 })
	inv, err := m.Measure(context.Background())
	if err != nil || inv.GPUs[0].Foreign || !inv.GPUs[1].Foreign {
		t.Errorf("got %+v, %v", inv.GPUs, err)
	}
	for _, c := range []struct {
		claim fleet.Claim
		free  bool
		err   bool
	}{
		{fleet.Claim{GPU: "a"}, true, false}, {fleet.Claim{GPU: "b"}, false, false}, {fleet.Claim{GPU: "b", Share: fleet.GiB}, true, false},
		{fleet.Claim{GPU: "c"}, false, true}, {fleet.Claim{GPU: "gone"}, false, true},
	} {
		if free, err := m.Free(context.Background(), []fleet.Claim{c.claim}); free != c.free || (err != nil) != c.err {
			t.Errorf("%+v: %v %v", c.claim, free, err)
		}
	}
	m.reader = Broken{errors.New("the driver hangs")}
	inv, err = m.Measure(context.Background())
	if err != nil || len(inv.GPUs) != 3 || inv.GPUs[0].Health != fleet.HealthUnknown || inv.GPUs[0].Reason != "the driver hangs" {
		t.Errorf("after a driver that hangs: %+v, %v", inv.GPUs, err)
	}
}

func TestCardsOfSeveralFabricsAreOfNone(t *testing.T) {
	ours := func(int) bool { return true }
	one := Reading{Cards: []Card{{UUID: "a", Fabric: "f.1"}, {UUID: "b", Fabric: "f.1"}}}
	two := Reading{Cards: []Card{{UUID: "a", Fabric: "f.1"}, {UUID: "b", Fabric: "f.2"}}}
	if one.inventory("t", ours).Fabric != "f.1" || two.inventory("t", ours).Fabric != "" {
		t.Error("the fabric is not that of all cards")
	}
}

func TestAProbeThatHangsOrDiesHarmsNobody(t *testing.T) {
	t.Setenv(childMode, "dies")
	p := NewProbe(os.Args[0])
	defer shut(t, p)
	if _, err := p.Read(context.Background()); err == nil {
		t.Error("a child that died has answered")
	}
	t.Setenv(childMode, "hang")
	ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer cancel()
	if _, err := p.Read(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a child that hangs: %v", err)
	}
	t.Setenv(childMode, "good")
	r, err := p.Read(context.Background())
	if err != nil || len(r.Cards) != 1 || r.Cards[0].UUID != "g0" {
		t.Errorf("the next child: %+v, %v", r, err)
	}
}

func TestNoMoreThanTwoChildrenHang(t *testing.T) {
	p := NewProbe("never started")
	p.stuck = maxStuck
	if _, err := p.Read(context.Background()); err == nil || !strings.Contains(err.Error(), "hang in the driver") {
		t.Errorf("got %v", err)
	}
}

func shut(t *testing.T, p *Probe) {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	if err := p.Close(ctx); err != nil {
		t.Error(err)
	}
}

func gpuFile(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "gpus.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestAFileIsReadAnewAtEachMeasurement(t *testing.T) {
	path := gpuFile(t, "version: 1\nfabric: fa\ngpus: [{class: h100-sxm-80gb, memory: 80GiB, count: 2}, {class: l40s-48gb, memory: 48GiB, count: 1}]\n")
	f, err := NewFile(path, "n1")
	if err != nil {
		t.Fatal(err)
	}
	inv, err := f.Measure(context.Background())
	if err != nil || inv.Fabric != "fa" || len(inv.GPUs) != 3 || inv.GPUs[2].Class != "l40s-48gb" || inv.GPUs[2].UUID != "FILE-n1-2" || inv.CPUs == 0 {
		t.Errorf("got %+v, %v", inv, err)
	}
	if err := os.WriteFile(path, []byte("version: 1\ngpus: [{class: c, memory: 1GiB, count: 2, unhealthy: [1]}]\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	inv, err = f.Measure(context.Background())
	if err != nil || len(inv.GPUs) != 2 || inv.GPUs[1].Health != fleet.Unhealthy || inv.GPUs[0].Health != fleet.Healthy {
		t.Errorf("after the edit: %+v, %v", inv, err)
	}
}

func TestAWrongFileSaysWhatWouldBeRight(t *testing.T) {
	for text, want := range map[string]string{
		"version: 2\n": "reads version: 1",
		"version: 1\ngpus: [{class: c, memory: 1GiB}]\n":                           "count of 1 to 64",
		"version: 1\ngpu: []\n":                                                    "write gpus",
		"version: 1\ngpus: [{class: c, memory: 80GB, count: 1}]\n":                 "not a size",
		"version: 1\ngpus: [{class: c, memory: 1GiB, count: 1, unhealthy: [1]}]\n": "count from 0",
	} {
		if _, err := NewFile(gpuFile(t, text), "n"); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %v, want %q", text, err, want)
		}
	}
}

// smi makes a program that prints what nvidia-smi prints.
func smi(t *testing.T, gpu, apps string) SMI {
	t.Helper()
	path := filepath.Join(t.TempDir(), "nvidia-smi")
	script := fmt.Sprintf("#!/bin/sh\ncase \"$1\" in\n--query-gpu=*) %s;;\n--query-compute-apps=*) %s;;\nesac\n", gpu, apps)
	if err := os.WriteFile(path, []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	return SMI{Program: path}
}

func TestNvidiaSMI(t *testing.T) {
	s := smi(t, `echo "0, GPU-a, NVIDIA L40S, 46068, 1024, 30, 55, [N/A], 570.1, 0, None"; echo "1, GPU-b, NVIDIA L40S, 46068, 0, [N/A], 40, 80.5, 570.1, 0, Reset"`, `echo "GPU-a, 4711"`)
	r, err := s.Read(context.Background())
	if err != nil || len(r.Cards) != 2 || r.Driver != "570.1" {
		t.Fatalf("got %+v, %v", r, err)
	}
	a, b := r.Cards[0], r.Cards[1]
	if a.Watts != nil || *a.Utilization != 0.3 || *a.MemoryUsed != 1<<30 || len(a.Processes) != 1 || a.Fault != "" {
		t.Errorf("card a: %+v", a)
	}
	if b.Utilization != nil || *b.Watts != 80.5 || !strings.Contains(b.Fault, "Reset") || !b.ProcessesKnown {
		t.Errorf("card b: %+v", b)
	}
}

func TestAnOldNvidiaSMIHasFewerColumns(t *testing.T) {
	s := smi(t, `case "$1" in *gpu_recovery_action*) echo "Field \"gpu_recovery_action\" is not a valid field"; exit 2;; esac; echo "0, GPU-a, Tesla T4, 15360, 0, 0, 30, 10, 450.1"`, `exit 1`)
	r, err := s.Read(context.Background())
	if err != nil || len(r.Cards) != 1 || r.Cards[0].Unsure == "" || r.Cards[0].ProcessesKnown {
		t.Errorf("got %+v, %v", r, err)
	}
}

func TestWithoutNvidiaSMIThereAreNoCards(t *testing.T) {
	m := NewMeasured("nvidia-smi", SMI{Program: "nvidia-smi-that-is-not-here"}, func(int) bool { return true })
	inv, err := m.Measure(context.Background())
	if err != nil || len(inv.GPUs) != 0 || !strings.HasPrefix(inv.Note, "no NVIDIA driver on this machine") {
		t.Errorf("got %+v, %v", inv, err)
	}
}
