package main

import (
	"bytes"
	_ "embed"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// systemctl stands in for systemd on the machines of the lab.
//
//go:embed systemctl.sh
var systemctl string

// waitDelay is how long a script's output is waited for when what it started still holds it.
const waitDelay = 100 * time.Millisecond

// pid is the process of a service; 0: it does not run.
func (m *machine) pid(service string) int {
	data, err := os.ReadFile(filepath.Join(m.dir, service+".pid"))
	if err != nil {
		return 0
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(data)))
	if err != nil || !runs(pid) {
		return 0
	}
	return pid
}

// runs says whether a process exists and is no zombie: nobody may wait for what a script left behind.
func runs(pid int) bool {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return false
	}
	_, rest, ok := bytes.Cut(data, []byte(") "))
	return ok && len(rest) > 0 && rest[0] != 'Z'
}

// signal sends a signal to a service.
func (m *machine) signal(service string, s syscall.Signal) error {
	pid := m.pid(service)
	if pid == 0 {
		return fmt.Errorf("%s does not run on %s", service, m.name)
	}
	return syscall.Kill(pid, s)
}

// endAll kills every process in the machine's namespace.
func (m *machine) endAll() error {
	files, _ := filepath.Glob(filepath.Join(m.dir, "*.pid")) // the pattern is well formed
	var errs []error
	for _, f := range files {
		service := strings.TrimSuffix(filepath.Base(f), ".pid")
		pid := m.pid(service)
		if pid == 0 {
			continue
		}
		_ = syscall.Kill(pid, syscall.SIGKILL) // it may have ended just now
		for end := time.Now().Add(5 * time.Second); runs(pid); time.Sleep(10 * time.Millisecond) {
			if time.Now().After(end) {
				errs = append(errs, fmt.Errorf("%s on %s does not die", service, m.name))
				break
			}
		}
	}
	return errors.Join(errs...)
}
