package engine

import (
	"context"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"time"
)

// versionQuery is how an engine says its version: by a flag of its own, or as a Python module.
type versionQuery struct {
	flag   string
	module string
}

// versionPatience is long, because importing an engine's Python takes many seconds on a cold disk.
const versionPatience = 60 * time.Second

// versionText finds "0.18.2", "v0.4.1", "0.33.0rc1", and llama.cpp's older "version: 6123 (…)" or "b6123".
var versionText = regexp.MustCompile(`(?:\bv?(\d+\.\d+(?:\.\d+)?(?:(?:rc|a|b|\.post|\.dev)\d+)?))|(?:\bb(\d{3,}))|(?:version: (\d+))`)

// ask runs the query. A program that does not answer has an unknown version, "", which no condition admits.
func (q versionQuery) ask(ctx context.Context, cmd []string) string {
	ctx, cancel := context.WithTimeout(ctx, versionPatience)
	defer cancel()
	var c *exec.Cmd
	switch {
	case q.module != "" && strings.HasPrefix(filepath.Base(cmd[0]), "python"):
		c = exec.CommandContext(ctx, cmd[0], "-c", "import "+q.module+"; print("+q.module+".__version__)")
	case q.module != "":
		c = exec.CommandContext(ctx, cmd[0], "--version")
	case q.flag != "":
		args := cmd[1:]
		if len(args) > 0 && args[0] == "serve" {
			args = args[1:] // `vllm serve --version` is an error; `vllm --version` is not
		}
		c = exec.CommandContext(ctx, cmd[0], append(append([]string{}, args...), q.flag)...)
	default:
		return ""
	}
	c.WaitDelay = time.Second
	out, err := c.CombinedOutput() // llama-server answers on standard error
	if err != nil {
		return ""
	}
	return findVersion(string(out))
}

func findVersion(text string) string {
	m := versionText.FindStringSubmatch(text)
	for i := 1; i < len(m); i++ {
		if m[i] != "" {
			return m[i]
		}
	}
	return ""
}

func lookPath(program string) (string, error) { return exec.LookPath(program) }
