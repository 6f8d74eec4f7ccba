package process

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"

	"berth/internal/durable"
)

// ident names a process for ever: a process id is reused, but not with the same start time in the same boot.
type ident struct {
	PID   int    `json:"pid"`
	Start uint64 `json:"start"` // clock ticks after boot
	Boot  string `json:"boot"`
}

func identify(pid int) (ident, error) {
	p, err := readProc(pid)
	if err != nil {
		return ident{}, err
	}
	return ident{PID: pid, Start: p.start, Boot: durable.BootID()}, nil
}

func (i ident) thisBoot() bool { return i.PID > 0 && i.Boot == durable.BootID() }

// alive says whether that very process still runs.
func (i ident) alive() bool {
	if !i.thisBoot() {
		return false
	}
	p, err := readProc(i.PID)
	return err == nil && p.start == i.Start && !p.ended()
}

// proc is a line of /proc: see proc(5), stat.
type proc struct {
	pid, ppid, session int
	state              byte // Z: its first thread has ended and was not waited for
	threads            int
	start              uint64
}

// ended says that the whole process has ended and holds nothing any more, waited for or not. The first thread of a
// process may be dead while others still run, or are being ended.
func (p proc) ended() bool { return p.state == 'X' || p.state == 'Z' && p.threads <= 1 }

func readProc(pid int) (proc, error) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return proc{}, err
	}
	at := bytes.LastIndexByte(b, ')') // the name before it may hold anything
	fields := strings.Fields(string(b[at+1:]))
	if at < 0 || len(fields) < 20 {
		return proc{}, fmt.Errorf("process %d: cannot read its status", pid)
	}
	p := proc{pid: pid, state: fields[0][0]}
	var errs [4]error
	p.ppid, errs[0] = strconv.Atoi(fields[1])
	p.session, errs[1] = strconv.Atoi(fields[3])
	p.threads, errs[3] = strconv.Atoi(fields[17])
	p.start, errs[2] = strconv.ParseUint(fields[19], 10, 64)
	return p, errors.Join(errs[:]...)
}

// processes lists all that run now.
func processes() ([]proc, error) {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil, err
	}
	var all []proc
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		if p, err := readProc(pid); err == nil { // else it has ended meanwhile
			all = append(all, p)
		}
	}
	return all, nil
}

// environ gives the value of a variable in the environment that a process was started with.
func environ(pid int, name string) (string, bool) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid))
	if err != nil {
		return "", false
	}
	for _, kv := range bytes.Split(b, []byte{0}) {
		if v, ok := strings.CutPrefix(string(kv), name); ok {
			return v, true
		}
	}
	return "", false
}

// signal sends a signal to that very process: the handle of os.Process pins the process before its identity is checked.
func (p proc) signal(s syscall.Signal) {
	target, err := os.FindProcess(p.pid)
	if err != nil {
		return
	}
	defer target.Release()
	if now, err := readProc(p.pid); err == nil && now.start == p.start {
		_ = target.Signal(s)
	}
}
