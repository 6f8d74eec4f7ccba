package procs

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"time"
)

// mark is the variable that every process of a group carries; its value is the group's folder.
const mark = "PROCS_OF="

// Group is a set of processes with one temporary folder. Its owner calls Close.
type Group struct {
	dir string

	mu  sync.Mutex
	all []*Process // in the order of their starts
}

// NewGroup makes a group and its folder, whose name begins with prefix.
func NewGroup(prefix string) (*Group, error) {
	dir, err := os.MkdirTemp("", prefix)
	if err != nil {
		return nil, err
	}
	return &Group{dir: dir}, nil
}

// Dir is the group's folder. Close removes it.
func (g *Group) Dir() string { return g.dir }

// Path is a path in the group's folder.
func (g *Group) Path(elem ...string) string {
	return filepath.Join(append([]string{g.dir}, elem...)...)
}

// Processes returns the newest process of each name, in the order in which the names came up.
func (g *Group) Processes() []*Process {
	g.mu.Lock()
	defer g.mu.Unlock()
	var out []*Process
	for _, p := range g.all {
		if i := slices.IndexFunc(out, func(o *Process) bool { return o.Name == p.Name }); i >= 0 {
			out[i] = p
			continue
		}
		out = append(out, p)
	}
	return out
}

// Close ends every process: first by SIGTERM, the last started first, then after patience by SIGKILL, then whatever still carries the mark. It
// removes the folder, and its error names what had to be killed and what is left. A second call finds nothing to do.
func (g *Group) Close(patience time.Duration) error {
	all := slices.Clone(g.Processes())
	slices.Reverse(all)
	for _, p := range all {
		_ = p.Signal(syscall.SIGTERM) // one that has ended needs none
	}
	var errs []error
	deadline := time.After(patience)
	for _, p := range all {
		select {
		case <-p.Done():
		case <-deadline:
			deadline = closed() // for the others, too
		}
		if p.Alive() {
			errs = append(errs, fmt.Errorf("%s did not end within %s and was killed", p.Name, patience))
			_ = p.Kill() // it may have ended just now
		}
	}
	errs = append(errs, g.sweep())
	if err := os.RemoveAll(g.dir); err != nil {
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

func closed() chan time.Time {
	c := make(chan time.Time)
	close(c)
	return c
}

// sweep kills what carries the mark although nobody of the group runs any more.
func (g *Group) sweep() error {
	var errs []error
	for range 20 { // a killed parent's children die a little later, and new ones may have come
		left := Marked(g.dir)
		if len(left) == 0 {
			break
		}
		for _, f := range left {
			_ = syscall.Kill(f.PID, syscall.SIGKILL) // it may have ended by itself
		}
		if errs == nil {
			errs = append(errs, fmt.Errorf("left running and killed: %v", left))
		}
		time.Sleep(50 * time.Millisecond)
	}
	if left := Marked(g.dir); len(left) > 0 {
		errs = append(errs, fmt.Errorf("SIGKILL does not end %v", left))
	}
	return errors.Join(errs...)
}
