package procs

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// Found is a process that was found by its mark.
type Found struct {
	PID     int
	Command []string
}

func (f Found) String() string {
	text := strings.Join(f.Command, " ")
	if len(text) > 100 {
		text = text[:100] + "…"
	}
	return fmt.Sprintf("%d (%s)", f.PID, text)
}

// Env is a variable of the process's environment as it was when the process started; "" if it has none or the process has ended.
func (f Found) Env(name string) string {
	environ, _ := os.ReadFile(filepath.Join("/proc", strconv.Itoa(f.PID), "environ"))
	for _, v := range strings.Split(string(environ), "\x00") {
		if value, ok := strings.CutPrefix(v, name+"="); ok {
			return value
		}
	}
	return ""
}

// Marked lists the running processes that name the folder dir on their command line or in their environment, this process excepted. Dead ones
// that only wait to be reaped have neither and are not listed.
func Marked(dir string) []Found {
	paths, _ := filepath.Glob("/proc/[0-9]*") // the pattern is well formed
	var out []Found
	for _, path := range paths {
		pid, err := strconv.Atoi(filepath.Base(path))
		if err != nil || pid == os.Getpid() {
			continue
		}
		command, _ := os.ReadFile(filepath.Join(path, "cmdline")) // a process that has ended has none
		environ, _ := os.ReadFile(filepath.Join(path, "environ"))
		if strings.Contains(string(command), dir) || strings.Contains(string(environ), dir) {
			out = append(out, Found{PID: pid, Command: strings.Split(strings.TrimRight(string(command), "\x00"), "\x00")})
		}
	}
	return out
}

// Marked lists the running processes of the group: those that it started, and what came of them.
func (g *Group) Marked() []Found { return Marked(g.dir) }
