package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const root = "../.."

var (
	goTest  = regexp.MustCompile("`go test (\\./\\S+?)(/\\.\\.\\.)?(?: -run '?([^'`]+)'?| -fuzz (\\w+))?`")
	makeE2E = regexp.MustCompile("`make e2e ONLY='?([^'`]+)'?`")
	testFn  = regexp.MustCompile(`(?m)^func ((?:Test|Fuzz)\w+)\(`)
)

// Each command of docs/faults.md, alternative by alternative, names a test or a scenario that exists.
func TestEveryCommandOfTheTableOfFaultsNamesATest(t *testing.T) {
	data, err := os.ReadFile(filepath.Join(root, "docs/faults.md"))
	if err != nil {
		t.Fatal(err)
	}
	text := strings.ReplaceAll(string(data), `\|`, "|") // how a table writes it
	commands := goTest.FindAllStringSubmatch(text, -1)
	if len(commands) < 40 {
		t.Errorf("only %d commands were read", len(commands))
	}
	for _, c := range commands {
		tests := testsOf(t, filepath.Join(root, c[1]), c[2] != "")
		for _, pattern := range strings.Split(c[3]+c[4], "|") {
			if !regexp.MustCompile("(?m)"+strings.Split(pattern, "/")[0]).MatchString(tests) || tests == "" {
				t.Errorf("%s: no test %s", c[0], pattern)
			}
		}
	}
	scenarios := names(t)
	for _, c := range makeE2E.FindAllStringSubmatch(text, -1) {
		for _, pattern := range strings.Split(c[1], "|") {
			if !regexp.MustCompile(pattern).MatchString(scenarios) {
				t.Errorf("%s: no scenario %s", c[0], pattern)
			}
		}
	}
}

func testsOf(t *testing.T, dir string, below bool) string {
	t.Helper()
	var out strings.Builder
	err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && path != dir && !below:
			return filepath.SkipDir
		case !strings.HasSuffix(path, "_test.go"):
			return nil
		}
		data, err := os.ReadFile(path)
		for _, m := range testFn.FindAllStringSubmatch(string(data), -1) {
			out.WriteString(m[1] + "\n")
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out.String()
}

func names(t *testing.T) string {
	t.Helper()
	pages, err := pageScenarios(filepath.Join(root, "docs/operations"))
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	for _, s := range append(pages, faultScenarios()...) {
		out.WriteString(s.name + "\n")
	}
	return out.String()
}

func TestAPageIsReadBlockByBlock(t *testing.T) {
	path := filepath.Join(t.TempDir(), "page.md")
	text := "# x\n<!-- starts from other.md -->\n```sh\nonly read\n```\n```sh on peer-1 peer-2\na\n\nb\n```\n<!-- check on operator\nc\n-->\n"
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	p, err := readPage(path)
	if err != nil {
		t.Fatal(err)
	}
	if len(p.steps) != 2 || p.steps[0].script != "a\n\nb\n" || len(p.steps[0].on) != 2 || p.steps[1].script != "c\n" || p.steps[1].line != 11 ||
		filepath.Base(p.first) != "other.md" {
		t.Errorf("%+v", p)
	}
	if err := os.WriteFile(path, []byte("```sh on peer-1\na\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := readPage(path); err == nil {
		t.Error("a block without an end was read")
	}
}

// Every page that the operator's index names can be read, and those about peers have something that is run.
func TestThePagesOfTheIndexAreRun(t *testing.T) {
	index, err := os.ReadFile(filepath.Join(root, "docs/operations/README.md"))
	if err != nil {
		t.Fatal(err)
	}
	run := map[string]bool{}
	for _, m := range regexp.MustCompile(`(?m)^\| \[[^]]+\]\((\S+\.md)\)`).FindAllStringSubmatch(string(index), -1) {
		p, err := readPage(filepath.Join(root, "docs/operations", m[1]))
		if err != nil {
			t.Error(err)
		}
		run[m[1]] = len(p.steps) > 0
	}
	for _, page := range []string{"three-peers", "five-peers", "replace-a-peer", "change-addresses", "lost-quorum", "backup-and-restore", "upgrade"} {
		if !run[page+".md"] {
			t.Errorf("%s.md is not in the index, or has nothing to run", page)
		}
	}
}
