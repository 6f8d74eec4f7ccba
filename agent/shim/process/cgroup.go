package process

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
)

// group is a cgroup by its folder. It is used to know and to end what is in it, never to limit.
type group string

// hierarchy is where this process is in one tree of cgroups.
type hierarchy struct {
	dir string
	v2  bool
}

// hierarchies lists where this process could make cgroups, the unified tree first: it ends a whole group in one step.
func hierarchies() ([]hierarchy, error) {
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return nil, err
	}
	own, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return nil, err
	}
	return parseHierarchies(string(mounts), string(own)), nil
}

// parseHierarchies joins the mounted trees with this process's place in each (proc(5): mountinfo, cgroup).
func parseHierarchies(mountinfo, own string) []hierarchy {
	places := make(map[string]string) // controller ("" in the unified tree) → path
	for line := range strings.Lines(own) {
		parts := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(parts) == 3 {
			for _, controller := range strings.Split(parts[1], ",") {
				places[controller] = parts[2]
			}
		}
	}
	var v2, v1 []hierarchy
	lines := bufio.NewScanner(strings.NewReader(mountinfo))
	for lines.Scan() {
		left, right, ok := strings.Cut(lines.Text(), " - ")
		l, r := strings.Fields(left), strings.Fields(right)
		if !ok || len(l) < 5 || len(r) < 3 {
			continue
		}
		root, point := l[3], l[4]
		place := func(controller string) string {
			rel := strings.TrimPrefix(places[controller], strings.TrimSuffix(root, "/"))
			return filepath.Join(point, rel)
		}
		switch {
		case r[0] == "cgroup2":
			v2 = append(v2, hierarchy{place(""), true})
		case r[0] == "cgroup" && slices.Contains(strings.Split(r[2], ","), "freezer"):
			v1 = append(v1, hierarchy{place("freezer"), false})
		}
	}
	return append(v2, v1...)
}

// makeGroup makes a cgroup of that name below this process's own and moves this process into it. It tries that a group
// for an engine can be made in it.
func makeGroup(name string) (group, bool, error) {
	all, err := hierarchies()
	if err != nil {
		return "", false, err
	}
	errs := []error{errors.New("no cgroups can be made here")}
	for _, h := range all {
		g := group(filepath.Join(h.dir, name))
		err := errors.Join(mkdir(string(g)), mkdir(string(g.engine(0))), g.join())
		if err == nil {
			return g, h.v2, nil
		}
		errs = append(errs, err)
	}
	return "", false, errors.Join(errs...)
}

func mkdir(dir string) error {
	if err := os.Mkdir(dir, 0o755); err != nil && !errors.Is(err, os.ErrExist) {
		return err
	}
	return nil
}

// engine is the group of one start. Each start needs a new one: what is cloned into a group that was once ended by
// cgroup.kill is killed at birth (seen on Linux 6.18, whose fork compares the kill counts of two different groups).
func (g group) engine(start int) group {
	return group(filepath.Join(string(g), "engine-"+strconv.Itoa(start)))
}

// join moves this process into the group.
func (g group) join() error { return g.write("cgroup.procs", strconv.Itoa(os.Getpid())) }

// joinThread moves the calling thread only, which version 1 allows: what it forks is born in the group.
func (g group) joinThread() error { return g.write("tasks", strconv.Itoa(syscall.Gettid())) }

func (g group) write(file, text string) error {
	if err := os.WriteFile(filepath.Join(string(g), file), []byte(text), 0); err != nil {
		return fmt.Errorf("cgroup: %w", err)
	}
	return nil
}

// pids lists the processes in the group and below it. A nil group is empty, and so is one that is gone.
func (g *group) pids() map[int]bool {
	out := make(map[int]bool)
	if g == nil {
		return out
	}
	_ = filepath.WalkDir(string(*g), func(path string, d os.DirEntry, err error) error {
		if err != nil || !d.IsDir() {
			return nil
		}
		b, _ := os.ReadFile(filepath.Join(path, "cgroup.procs"))
		for _, field := range strings.Fields(string(b)) {
			if pid, err := strconv.Atoi(field); err == nil {
				out[pid] = true
			}
		}
		return nil
	})
	return out
}

// kill ends all processes of the group at once, where the kernel can (version 2, Linux 5.14); else the caller does it
// one by one.
func (g *group) kill() { _ = g.write("cgroup.kill", "1") }

// remove forgets an empty group; engines may have made more below it.
func (g group) remove() {
	var dirs []string
	_ = filepath.WalkDir(string(g), func(path string, d os.DirEntry, err error) error {
		if err == nil && d.IsDir() {
			dirs = append(dirs, path)
		}
		return nil
	})
	for _, dir := range slices.Backward(dirs) {
		_ = os.Remove(dir)
	}
}
