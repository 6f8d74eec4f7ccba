package procs

import (
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func start(t *testing.T, g *Group, name string, argv ...string) *Process {
	t.Helper()
	p, err := g.Start(name, argv...)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func group(t *testing.T) *Group {
	t.Helper()
	g, err := NewGroup("procs-test-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = g.Close(0) })
	return g
}

func TestCloseFindsWhatOutlivedItsParent(t *testing.T) {
	g := group(t)
	p := start(t, g, "parent", "sh", "-c", "setsid sleep 300 >/dev/null 2>&1 & exit 7")
	if code := p.ExitCode(); code != 7 {
		t.Fatalf("exit %d", code)
	}
	left := Marked(g.Dir())
	if len(left) != 1 {
		t.Fatalf("found %v", left)
	}
	err := g.Close(time.Second)
	if err == nil || !strings.Contains(err.Error(), "sleep 300") {
		t.Errorf("what was left is not named: %v", err)
	}
	if left := Marked(g.Dir()); len(left) > 0 {
		t.Errorf("still there: %v", left)
	}
	if _, err := os.Stat(g.Dir()); !os.IsNotExist(err) {
		t.Errorf("the folder: %v", err)
	}
	if err := g.Close(time.Second); err != nil {
		t.Errorf("a second close: %v", err)
	}
}

func TestCloseEndsInOrderAndNamesWhoWouldNot(t *testing.T) {
	g := group(t)
	good := start(t, g, "good", "sleep", "300")
	ready := g.Path("ready")
	if err := syscall.Mkfifo(ready, 0o600); err != nil {
		t.Fatal(err)
	}
	bad := start(t, g, "bad", "sh", "-c", `trap "" TERM; echo >ready; while :; do sleep 300; done`)
	if _, err := os.ReadFile(ready); err != nil { // ends when the trap is set
		t.Fatal(err)
	}
	err := g.Close(2 * time.Second)
	if err == nil || !strings.Contains(err.Error(), "bad did not end") || strings.Contains(err.Error(), "good") {
		t.Errorf("%v", err)
	}
	if good.ExitCode() != -1 || bad.ExitCode() != -1 || bad.Alive() {
		t.Errorf("codes %d and %d; both ended by a signal", good.ExitCode(), bad.ExitCode())
	}
}

func TestLogKeepsTheLastLines(t *testing.T) {
	w := newTail(2)
	for _, text := range []string{"a\nb", "b\nc\n", "d"} {
		if n, err := w.Write([]byte(text)); n != len(text) || err != nil {
			t.Fatal(n, err)
		}
	}
	if got := strings.Join(w.last(9), "|"); got != "bb|c|d" {
		t.Errorf("%q", got)
	}
	if got := strings.Join(w.last(1), "|"); got != "d" {
		t.Errorf("%q", got)
	}
}

func TestKillAndTheNewestOfAName(t *testing.T) {
	g := group(t)
	first := start(t, g, "p", "sleep", "300")
	if err := first.Kill(); err != nil || first.Alive() {
		t.Fatal(err)
	}
	if err := first.Signal(syscall.SIGTERM); err == nil {
		t.Error("a process that has ended took a signal")
	}
	second := start(t, g, "p", "sleep", "300")
	if all := g.Processes(); len(all) != 1 || all[0] != second {
		t.Errorf("%v", all)
	}
}

func TestPortsAreHandedOutOnce(t *testing.T) {
	p := NewPorts()
	a, err := p.Take(3)
	if err != nil {
		t.Fatal(err)
	}
	b, err := p.Take(1)
	if err != nil || b < a+3 {
		t.Errorf("%d after the range from %d: %v", b, a, err)
	}
	if _, err := p.Take(lastPort); err == nil {
		t.Error("a range that cannot be")
	}
}
