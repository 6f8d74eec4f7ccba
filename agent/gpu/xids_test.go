package gpu

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// faults reads once and returns the fault of each card.
func faults(t *testing.T, x *XIDs) map[string]string {
	t.Helper()
	r, err := x.Read(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]string{}
	for _, c := range r.Cards {
		out[c.UUID] = c.Fault
	}
	return out
}

func TestAnXIDOutlivesTheProcessThatSawItAndTheAgent(t *testing.T) {
	path := filepath.Join(t.TempDir(), "xids.json")
	sick := fixed{Reading{Cards: []Card{{UUID: "a", XID: 79, Fault: "XID 79"}, {UUID: "b"}, {UUID: "c", XID: 62, Fault: "XID 62"}}}}
	quiet := fixed{Reading{Cards: []Card{{UUID: "a"}, {UUID: "b"}, {UUID: "c", Checked: true}}}}

	if f := faults(t, RememberXIDs(sick, path, "boot-1")); !strings.Contains(f["a"], "XID 79") || f["b"] != "" {
		t.Errorf("when it is seen: %q", f)
	}
	for i, again := range []*XIDs{RememberXIDs(quiet, path, "boot-1"), RememberXIDs(quiet, path, "boot-1")} {
		f := faults(t, again)
		if !strings.Contains(f["a"], "XID 79") || !strings.Contains(f["a"], path) {
			t.Errorf("start %d after it: card a is %q", i, f["a"])
		}
		if f["b"] != "" || f["c"] != "" {
			t.Errorf("start %d after it: b is %q, and c, which the driver calls well, %q", i, f["b"], f["c"])
		}
	}
	if f := faults(t, RememberXIDs(quiet, path, "boot-2")); f["a"] != "" {
		t.Errorf("after a reboot: %q", f["a"])
	}
}

func TestAGraverFaultIsNotHiddenByAnXID(t *testing.T) {
	path := filepath.Join(t.TempDir(), "xids.json")
	faults(t, RememberXIDs(fixed{Reading{Cards: []Card{{UUID: "a", XID: 79, Fault: "XID 79"}}}}, path, "b"))
	lost := fixed{Reading{Cards: []Card{{UUID: "a", Fault: "NVML: GPU is lost"}}}}
	if f := faults(t, RememberXIDs(lost, path, "b")); f["a"] != "NVML: GPU is lost" {
		t.Errorf("got %q", f["a"])
	}
}

func TestAMemoryThatCannotBeReadMakesNoCardWell(t *testing.T) {
	path := filepath.Join(t.TempDir(), "xids.json")
	if err := os.WriteFile(path, []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	x := RememberXIDs(fixed{Reading{Cards: []Card{{UUID: "a"}}}}, path, "b")
	for range 2 {
		if _, err := x.Read(context.Background()); err == nil || !strings.Contains(err.Error(), path) {
			t.Errorf("got %v", err)
		}
	}
}
