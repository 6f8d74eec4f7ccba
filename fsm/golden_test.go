package fsm

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

var rewrite = flag.Bool("rewrite", false, "write what the golden scripts give now into their files; then read the diff")

// TestGolden runs the scripts of testdata. A script is prose for the reader: comments, one command a line, and under it, indented, everything
// that the command changed. The language is in script_test.go.
func TestGolden(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("no scripts in testdata: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			want, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			got := runScript(t, string(want))
			if got == string(want) {
				return
			}
			if *rewrite {
				if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			t.Errorf("%s: %s\nrun go test ./fsm -run Golden -rewrite and read the diff", file, firstDifference(string(want), got))
		})
	}
}

func firstDifference(want, got string) string {
	w, g := strings.Split(want, "\n"), strings.Split(got, "\n")
	for i := range max(len(w), len(g)) {
		var a, b string
		if i < len(w) {
			a = w[i]
		}
		if i < len(g) {
			b = g[i]
		}
		if a != b {
			return "line " + itoa(i+1) + "\nwant " + a + "\ngot  " + b
		}
	}
	return "no difference"
}

// runScript executes every command line of a script and returns the script with the traces of this run.
func runScript(t *testing.T, text string) string {
	s := newScript(t)
	var out bytes.Buffer
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, "\n")
		if strings.HasPrefix(line, "  ") {
			continue // a trace of an earlier run
		}
		out.WriteString(line + "\n")
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		for _, l := range s.do(line) {
			out.WriteString("  " + l + "\n")
		}
	}
	// What a script leaves behind must survive being saved and restored.
	checkRoundTrip(t, s.m.State())
	checkInvariants(t, s.m.State())
	return out.String()
}
