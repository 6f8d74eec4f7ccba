package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
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

// tree is a copy of the repository that mistakes are planted in.
type tree struct{ dir string }

// copyTree copies what git would keep of the repository in the current folder.
func copyTree(ctx context.Context) (tree, error) {
	out, err := exec.CommandContext(ctx, "git", "ls-files", "-z", "--cached", "--others", "--exclude-standard").Output()
	if err != nil {
		return tree{}, fmt.Errorf("git ls-files: %w", err)
	}
	dir, err := os.MkdirTemp("", "berth-mutants")
	if err != nil {
		return tree{}, err
	}
	t := tree{dir}
	for f := range strings.SplitSeq(strings.TrimRight(string(out), "\x00"), "\x00") {
		if err := t.copy(f); err != nil && !errors.Is(err, fs.ErrNotExist) { // git lists what was deleted, too
			return t, err
		}
	}
	return t, nil
}

// copy takes one file from the repository.
func (t tree) copy(f string) error {
	data, err := os.ReadFile(f)
	if err != nil {
		return err
	}
	to := filepath.Join(t.dir, f)
	if err := os.MkdirAll(filepath.Dir(to), 0o700); err != nil {
		return err
	}
	return os.WriteFile(to, data, 0o600)
}

// try plants the mistake of a patch, gives the first test that fails under it, and takes it out again. An error says that no test failed, or why
// the patch could not be tried.
func (t tree) try(ctx context.Context, path string, timeout time.Duration) (_ string, err error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return "", err
	}
	m, err := parse(string(text))
	if err != nil {
		return "", err
	}
	whole, err := t.read(m.files)
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, t.heal(whole)) }()
	if out, err := t.command(ctx, bytes.NewReader(text), "git", "apply", "-C1", "-"); err != nil {
		return "", fmt.Errorf("it does not apply any more; make it anew: %s", firstLines(out))
	}
	if out, err := t.command(ctx, nil, "go", append([]string{"build"}, m.changed()...)...); err != nil {
		return "", fmt.Errorf("it does not compile: %s", firstLines(out))
	}
	args := []string{"test", "-count=1", "-failfast", "-timeout=" + timeout.String()}
	if m.run != "" {
		args = append(args, "-run="+m.run)
	}
	out, err := t.command(ctx, nil, "go", append(args, m.packages...)...)
	if err == nil {
		return "", errors.New("no test of " + strings.Join(m.packages, " ") + " noticed it")
	}
	by, err := firstFailure(out)
	if err != nil {
		return "", err
	}
	return by, errors.Join(t.heal(whole), t.passes(ctx, by))
}

// read reads files of the copy. The repository itself may have moved on since it was copied.
func (t tree) read(files []string) (map[string][]byte, error) {
	whole := make(map[string][]byte, len(files))
	for _, f := range files {
		data, err := os.ReadFile(filepath.Join(t.dir, f))
		if err != nil {
			return nil, fmt.Errorf("the patch changes a file that is not there: %w", err)
		}
		whole[f] = data
	}
	return whole, nil
}

// heal takes a mistake out again.
func (t tree) heal(whole map[string][]byte) error {
	var errs []error
	for f, data := range whole {
		errs = append(errs, os.WriteFile(filepath.Join(t.dir, f), data, 0o600))
	}
	return errors.Join(errs...)
}

// passes makes sure that a test ("TestA of berth/idle") fails for the mistake and not by itself.
func (t tree) passes(ctx context.Context, by string) error {
	name, pkg, ok := strings.Cut(by, " of ")
	if !ok || !strings.HasPrefix(name, "Test") {
		return nil
	}
	name, _, _ = strings.Cut(name, "/")
	if out, err := t.command(ctx, nil, "go", "test", "-count=1", "-run=^"+name+"$", pkg); err != nil {
		return fmt.Errorf("%s fails without the mistake, too: %s", by, firstLines(out))
	}
	return nil
}

// changed lists the packages that the patch changes.
func (m mutant) changed() []string {
	var out []string
	for _, f := range m.files {
		if dir := "./" + filepath.ToSlash(filepath.Dir(f)); !slices.Contains(out, dir) {
			out = append(out, dir)
		}
	}
	return out
}

func (t tree) command(ctx context.Context, in io.Reader, name string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir, cmd.Stdin = t.dir, in
	cmd.Env = append(os.Environ(), "GIT_CEILING_DIRECTORIES="+filepath.Dir(t.dir)) // the copy is in no repository
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
