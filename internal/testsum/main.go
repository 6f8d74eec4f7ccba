// Command testsum runs "go test -json" with the arguments it is given and prints what a person wants to know of it: the output of what failed,
// one line for each test that was skipped with its reason, and the counts. A skip's reason starts with "needs X:", where X is a program or "root".
// With -strict a skip is a failure when this machine has X, so that a check that could have run is never counted as one that could not.
package main

import (
	"bufio"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"time"
)

func main() {
	strict := flag.Bool("strict", false, "fail on a skip that this machine could have run")
	flag.Parse()
	cmd := exec.Command("go", append([]string{"test", "-json"}, flag.Args()...)...)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "testsum:", err)
		os.Exit(1)
	}
	s := newSummary(os.Stdout)
	s.read(out)
	failed := cmd.Wait() != nil
	if !s.report(*strict, haveProgram) || failed {
		os.Exit(1)
	}
}

// event is one line of test2json's output.
type event struct {
	Action, Package, Test, Output, ImportPath string
	Elapsed                                   float64
}

type summary struct {
	w       io.Writer
	started time.Time
	output  map[string][]string // of tests that have not ended, by package and test
	skips   map[string]string   // reason by test
	passed  int
	failed  int
	slow    map[string]float64 // seconds by package
}

func newSummary(w io.Writer) *summary {
	return &summary{w: w, started: time.Now(), output: map[string][]string{}, skips: map[string]string{}, slow: map[string]float64{}}
}

func (s *summary) read(r io.Reader) {
	sc := bufio.NewScanner(r)
	sc.Buffer(nil, 16<<20)
	for sc.Scan() {
		var e event
		if json.Unmarshal(sc.Bytes(), &e) != nil {
			fmt.Fprintln(s.w, sc.Text())
			continue
		}
		s.add(e)
	}
}

func (s *summary) add(e event) {
	key := e.Package + " " + e.Test
	switch e.Action {
	case "output":
		s.output[key] = append(s.output[key], e.Output)
		return
	case "build-output":
		fmt.Fprint(s.w, e.Output)
		return
	case "fail":
		if e.Test != "" {
			s.failed++
		}
		fmt.Fprintf(s.w, "--- FAIL: %s\n%s", key, strings.Join(s.output[key], ""))
	case "pass":
		if e.Test != "" {
			s.passed++
		} else {
			s.slow[e.Package] = e.Elapsed
		}
	case "skip":
		if e.Test != "" {
			s.skips[key] = reason(s.output[key])
		}
	default:
		return
	}
	delete(s.output, key)
}

var where = regexp.MustCompile(`^\s*\S+\.go:\d+: `)

// reason finds the line that t.Skip printed.
func reason(lines []string) string {
	for _, l := range lines {
		if where.MatchString(l) {
			return strings.TrimSpace(where.ReplaceAllString(l, ""))
		}
	}
	return "no reason given"
}

var needs = regexp.MustCompile(`^needs ([a-z0-9+_.-]+)`)

// report prints the skips and the counts, and says whether all is well.
func (s *summary) report(strict bool, have func(string) bool) bool {
	ok := s.failed == 0
	for _, key := range slices.Sorted(maps.Keys(s.skips)) {
		fmt.Fprintf(s.w, "skipped: %s: %s\n", key, s.skips[key])
		m := needs.FindStringSubmatch(s.skips[key])
		if strict && (m == nil || have(m[1])) {
			fmt.Fprintln(s.w, "  this machine could have run it")
			ok = false
		}
	}
	slowest := slices.SortedFunc(maps.Keys(s.slow), func(a, b string) int { return int(1000 * (s.slow[b] - s.slow[a])) })
	for _, p := range slowest[:min(3, len(slowest))] {
		fmt.Fprintf(s.w, "slowest: %s %.1fs\n", p, s.slow[p])
	}
	fmt.Fprintf(s.w, "in %s\n", time.Since(s.started).Round(time.Second))
	fmt.Fprintf(s.w, "%d passed, %d failed, %d skipped\n", s.passed, s.failed, len(s.skips))
	return ok
}

func haveProgram(name string) bool {
	if name == "root" {
		return os.Geteuid() == 0
	}
	_, err := exec.LookPath(name)
	return err == nil
}
