package process

import (
	"context"
	"fmt"
	"os"
	"strings"
	"syscall"
	"time"

	"berth/fleet"
)

// Variables that mark the processes of a shim and of its engine; the value is the shim's folder. The third tells, when that is lost, which cards they hold.
const (
	shimMark   = "BERTH_SHIM_FOLDER="
	engineMark = "BERTH_ENGINE_OF="
	claimsMark = "BERTH_CARDS="
)

// claimed writes the cards of a shard for the environment of its processes.
func claimed(claims []fleet.Claim) string {
	uuids := make([]string, len(claims))
	for i, c := range claims {
		uuids[i] = c.GPU
	}
	return claimsMark + strings.Join(uuids, ",")
}

// cardsOf reads that again. A process of an older release does not say.
func cardsOf(pid int) []string {
	text, _ := environ(pid, claimsMark)
	return strings.FieldsFunc(text, func(r rune) bool { return r == ',' })
}

// killEvery is the time between looks at what SIGKILL has left.
const killEvery = 10 * time.Millisecond

// tree is everything that came of an engine. A process belongs to it by any of: its cgroup, its session, the mark in its
// environment, and, for the shim itself, by descent: a shim is the reaper of all its orphans.
type tree struct {
	mark    string
	leader  ident
	group   *group
	descent bool // also what descends from this process
}

// kill ends the tree with SIGKILL and waits until nothing of it is left.
func (t tree) kill(ctx context.Context) error {
	tick := time.NewTicker(killEvery)
	defer tick.Stop()
	for {
		left, err := t.members()
		if err != nil {
			return err
		}
		if len(left) == 0 {
			return nil
		}
		if t.group != nil {
			t.group.kill()
		}
		for _, p := range left {
			p.signal(syscall.SIGKILL)
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("SIGKILL does not end %s", names(left))
		}
	}
}

func names(all []proc) string {
	var out []string
	for _, p := range all {
		out = append(out, fmt.Sprintf("process %d (state %c)", p.pid, p.state))
	}
	return strings.Join(out, ", ")
}

// members lists the processes of the tree that live. Dead ones that only wait to be reaped hold nothing.
func (t tree) members() ([]proc, error) {
	all, err := processes()
	if err != nil {
		return nil, fmt.Errorf("list processes: %w", err)
	}
	session := t.session(all)
	grouped := t.group.pids()
	kin := t.kin(all)
	var out []proc
	for _, p := range all {
		if p.pid == os.Getpid() || p.ended() {
			continue
		}
		rest, ok := environ(p.pid, t.mark)
		marked := ok && rest == ""
		if grouped[p.pid] || kin[p.pid] || marked || session > 0 && p.session == session {
			out = append(out, p)
		}
	}
	return out, nil
}

// session is the engine's session, or 0 when it is over for certain: another process has the leader's id, which the
// kernel gives to nobody while the session has members.
func (t tree) session(all []proc) int {
	if !t.leader.thisBoot() {
		return 0
	}
	for _, p := range all {
		if p.pid == t.leader.PID && p.start != t.leader.Start {
			return 0
		}
	}
	return t.leader.PID
}

// kin are the descendants of this process.
func (t tree) kin(all []proc) map[int]bool {
	out := make(map[int]bool)
	if !t.descent {
		return out
	}
	for grew := true; grew; {
		grew = false
		for _, p := range all {
			if !out[p.pid] && (p.ppid == os.Getpid() || out[p.ppid]) {
				out[p.pid], grew = true, true
			}
		}
	}
	return out
}
