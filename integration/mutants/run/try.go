package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"time"
)

// mutant is a planted mistake.
type mutant struct {
	packages []string
	run      string
	files    []string // that it changes
}

// parse reads a patch.
func parse(text string) (mutant, error) {
	var m mutant
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if rest, ok := strings.CutPrefix(line, "Packages:"); ok && len(m.files) == 0 {
			m.packages = strings.Fields(rest)
		}
		if rest, ok := strings.CutPrefix(line, "Run:"); ok && len(m.files) == 0 {
			m.run = strings.TrimSpace(rest)
		}
		if rest, ok := strings.CutPrefix(line, "+++ b/"); ok {
			m.files = append(m.files, rest)
		}
	}
	if len(m.packages) == 0 || len(m.files) == 0 {
		return m, errors.New(`the patch needs a line "Packages: …" and a diff with a/ and b/`)
	}
	return m, nil
}

// try gives the first test that fails under a patch. An error says that none did, or why it could not be tried.
func try(ctx context.Context, path string, timeout time.Duration) (string, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return "", err
	}
	m, err := parse(string(text))
	if err != nil {
		return "", err
	}
	dir, err := os.MkdirTemp("", "mutant")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(dir)
	overlay, err := m.plant(ctx, dir, text)
	if err != nil {
		return "", err
	}
	if out, err := goCommand(ctx, "build", "-overlay", overlay, m.packages); err != nil {
		return "", fmt.Errorf("it does not compile: %s", firstLines(out))
	}
	flags := []string{"-count=1", "-failfast", "-timeout=" + timeout.String()}
	if m.run != "" {
		flags = append(flags, "-run="+m.run)
	}
	out, err := goCommand(ctx, "test", "-overlay", overlay, append(flags, m.packages...))
	if err == nil {
		return "", errors.New("no test of " + strings.Join(m.packages, " ") + " noticed it")
	}
	return firstFailure(out)
}

// plant copies the files concerned into dir, patches them there, and writes the file that lays them over the tree.
func (m mutant) plant(ctx context.Context, dir string, patch []byte) (string, error) {
	replace := map[string]string{}
	for _, f := range m.files {
		data, err := os.ReadFile(f)
		if err != nil {
			return "", err
		}
		copied := filepath.Join(dir, f)
		if err := os.MkdirAll(filepath.Dir(copied), 0o700); err != nil {
			return "", err
		}
		if err := os.WriteFile(copied, data, 0o600); err != nil {
			return "", err
		}
		original, err := filepath.Abs(f)
		if err != nil {
			return "", err
		}
		replace[original] = copied
	}
	cmd := exec.CommandContext(ctx, "git", "apply", "-C1", "-")
	cmd.Dir, cmd.Stdin = dir, bytes.NewReader(patch)
	cmd.Env = append(os.Environ(), "GIT_CEILING_DIRECTORIES="+filepath.Dir(dir))
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("it does not apply any more; make it anew: %s", firstLines(string(out)))
	}
	overlay := filepath.Join(dir, "overlay.json")
	data, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return "", err
	}
	return overlay, os.WriteFile(overlay, data, 0o600)
}

func goCommand(ctx context.Context, verb, flag, value string, rest []string) (string, error) {
	cmd := exec.CommandContext(ctx, "go", append([]string{verb, flag, value}, rest...)...)
	out, err := cmd.CombinedOutput()
	return string(out), err
}

var (
	failed  = regexp.MustCompile(`(?m)^--- FAIL: (\S+)`)
	running = regexp.MustCompile(`(?m)^\s+(Test\S+) \(`) // of a test that ran when a panic or the time limit ended the whole
	pkg     = regexp.MustCompile(`(?m)^FAIL\s+(berth/\S+|berth)`)
)

// firstFailure reads the output of "go test". What ends without a failing test, such as a build that failed, is an error.
func firstFailure(out string) (string, error) {
	where := ""
	if p := pkg.FindStringSubmatch(out); p != nil {
		where = " of " + p[1]
	}
	for _, re := range []*regexp.Regexp{failed, running} {
		if t := re.FindStringSubmatch(out); t != nil && !strings.Contains(out, "[build failed]") {
			return t[1] + where, nil
		}
	}
	if strings.Contains(out, "panic: ") || strings.Contains(out, "goleak: ") {
		return "a panic or a leak" + where, nil
	}
	return "", fmt.Errorf("its tests did not run: %s", firstLines(out))
}

func firstLines(text string) string {
	lines := strings.SplitN(strings.TrimSpace(text), "\n", 5)
	return strings.Join(lines[:min(len(lines), 4)], "; ")
}
