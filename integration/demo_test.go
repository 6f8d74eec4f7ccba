package integration

import (
	"context"
	"strings"
	"testing"

	"berth/demo/cluster/steps"
)

// The demonstration's script, as a test: it checks each of its steps itself.
func TestDemo(t *testing.T) {
	var out strings.Builder
	err := steps.Run(t.Context(), steps.Config{Bin: programs(t), Examples: "../examples/sim", Out: &out})
	t.Log("\n" + out.String())
	if err != nil {
		t.Fatal(err)
	}
}

// interruptAt cancels a context once a text has been written.
type interruptAt struct {
	strings.Builder
	text   string
	cancel context.CancelFunc
}

func (w *interruptAt) Write(b []byte) (int, error) {
	n, err := w.Builder.Write(b)
	if strings.Contains(w.String(), w.text) {
		w.cancel()
	}
	return n, err
}

// A demonstration that is interrupted while engines run leaves nothing behind; the stage looks for it, and what it finds would be in the error.
func TestDemoInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	out := &interruptAt{text: " 5  ", cancel: cancel}
	err := steps.Run(ctx, steps.Config{Bin: programs(t), Examples: "../examples/sim", Out: out})
	if err == nil || !strings.Contains(err.Error(), "interrupted in step 5") || strings.Contains(err.Error(), "cleaning up") {
		t.Errorf("%v\n%s", err, out.String())
	}
}

// A check that does not hold fails the demonstration, and the last words of every process are shown.
func TestDemoFails(t *testing.T) {
	var out strings.Builder
	err := steps.Run(t.Context(), steps.Config{Bin: programs(t), Examples: t.TempDir() + "/none", Out: &out})
	if err == nil || !strings.Contains(err.Error(), "step 3") || strings.Contains(err.Error(), "cleaning up") {
		t.Errorf("%v", err)
	}
	for _, want := range []string{"FAILED", "--- peer-1", "--- gpu-04", "--- router-2"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%q is not in the output:\n%s", want, out.String())
		}
	}
}
