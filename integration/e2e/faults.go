package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"berth/fleet/wire"
)

// peerService is the unit of a peer.
const peerService = "berth-peer"

// trial is a cluster of three under load, and the limit on the time in which nobody may write.
type trial struct {
	*lab
	peers []*machine
}

// limits of the time without a write, in seconds. raft's timers are at their defaults: 1 s until a follower misses its leader, and up to 1 s more until
// it asks for votes; the disk's watchdog waits 5 s.
const (
	electionGap = 5.0
	stuckGap    = 10.0
	noGap       = 3.0
)

func faultScenarios() []scenario {
	return []scenario{
		fault("leader killed", electionGap, nil, (*trial).killed),
		fault("leader paused for 10 s", electionGap, nil, (*trial).paused),
		fault("leader isolated for 10 s", electionGap, nil, (*trial).isolated),
		fault("leader cannot send to the others for 10 s", electionGap, nil, (*trial).cannotSend),
		fault("leader cannot hear the others for 10 s", electionGap, nil, (*trial).cannotHear),
		fault("20 % loss at every peer for 10 s", electionGap, nil, (*trial).lossy, "nft"),
		fault("leader's disk full", electionGap, small, (*trial).fullDisk),
		fault("leader's disk frozen", stuckGap, loop, (*trial).frozenDisk, "fsfreeze", "mkfs.ext4", "losetup"),
		fault("all peers killed at once", 15, nil, (*trial).allKilled),
		fault("rolling restart", noGap, nil, (*trial).rolling),
	}
}

// fault makes a scenario: a cluster, disks of a certain kind, a load, the fault in its middle, and the same wishes for all: nothing acknowledged is
// lost, writes stop no longer than they must, and in the end all three peers have one state.
func fault(name string, gap float64, disks func(context.Context, *machine) error, do func(*trial, context.Context) error, needs ...string) scenario {
	return scenario{name: name, needs: append(needs, "setpriv", "useradd"), run: func(ctx context.Context, l *lab) error {
		t, err := newTrial(ctx, l, disks)
		if err != nil {
			return err
		}
		ld, err := l.startLoad(ctx, t.peers)
		if err != nil {
			return err
		}
		pause(ctx, 2*time.Second)
		failure := do(t, ctx)
		pause(ctx, 2*time.Second)
		m, err := ld.end()
		switch {
		case failure != nil:
			return failure
		case err != nil:
			return err
		}
		fmt.Printf("      %s: %s\n", name, m)
		switch {
		case m.Lost > 0 || m.Acked < 50:
			return fmt.Errorf("%d of %d acknowledged writes are lost", m.Lost, m.Acked)
		case m.Gap > gap:
			return fmt.Errorf("nobody could write for %.2f s; at most %.0f s are right", m.Gap, gap)
		}
		return t.settled(ctx)
	}}
}

// newTrial sets a cluster up as the page says.
func newTrial(ctx context.Context, l *lab, disks func(context.Context, *machine) error) (*trial, error) {
	t := &trial{lab: l}
	for i := range 3 {
		m, err := l.machine(ctx, fmt.Sprintf("peer-%d", i+1))
		if err != nil {
			return nil, err
		}
		if disks != nil {
			if err := disks(ctx, m); err != nil {
				return nil, err
			}
		}
		t.peers = append(t.peers, m)
	}
	p, err := readPage(filepath.Join(l.root, "docs/operations/three-peers.md"))
	if err != nil {
		return nil, err
	}
	return t, p.run(ctx, l)
}

// views asks for the peers, as berthctl shows them.
func (t *trial) views(ctx context.Context) ([]wire.PeerView, error) {
	out, err := t.machines[operatorHost].do(ctx, "berthctl peers --json")
	if err != nil {
		return nil, err
	}
	var views []wire.PeerView
	if err := json.Unmarshal([]byte(out), &views); err != nil {
		return nil, fmt.Errorf("berthctl peers --json: %w: %s", err, out)
	}
	return views, nil
}

// leader finds who leads.
func (t *trial) leader(ctx context.Context) (*machine, error) {
	for {
		views, err := t.views(ctx)
		if err == nil {
			for _, v := range views {
				if v.State == "leader" {
					return t.machines[v.ID], nil
				}
			}
			err = fmt.Errorf("none of %v leads", views)
		}
		if pause(ctx, 200*time.Millisecond); ctx.Err() != nil {
			return nil, err
		}
	}
}

// settledWithin is the time after a fault in which all must be right again.
const settledWithin = 60 * time.Second

// settled waits until all three peers have a vote and one state.
func (t *trial) settled(ctx context.Context) error {
	began := time.Now()
	ctx, cancel := context.WithTimeout(ctx, settledWithin)
	defer cancel()
	for {
		views, err := t.views(ctx)
		prints, good := map[string]bool{}, 0
		for _, v := range views {
			if v.Voter && v.Fingerprint != "" && v.State != "unreachable" {
				good++
				prints[v.AppliedIndex+v.Fingerprint] = true
			}
		}
		if err == nil && good == 3 && len(prints) == 1 {
			fmt.Printf("      all right again %.1f s after it\n", time.Since(began).Seconds())
			return nil
		}
		if pause(ctx, 500*time.Millisecond); ctx.Err() != nil {
			return fmt.Errorf("not right within %v: %v %+v", settledWithin, err, views)
		}
	}
}

func (t *trial) start(ctx context.Context, m *machine) error {
	_, err := m.do(ctx, "systemctl start "+peerService)
	return err
}

func (t *trial) killed(ctx context.Context) error {
	m, err := t.leader(ctx)
	if err != nil {
		return err
	}
	if err := m.signal(peerService, syscall.SIGKILL); err != nil {
		return err
	}
	pause(ctx, 5*time.Second)
	return t.start(ctx, m)
}

func (t *trial) paused(ctx context.Context) error {
	m, err := t.leader(ctx)
	if err != nil {
		return err
	}
	if err := m.signal(peerService, syscall.SIGSTOP); err != nil {
		return err
	}
	pause(ctx, 10*time.Second)
	return m.signal(peerService, syscall.SIGCONT)
}

func (t *trial) allKilled(ctx context.Context) error {
	for _, m := range t.peers {
		if err := m.signal(peerService, syscall.SIGKILL); err != nil {
			return err
		}
	}
	for _, m := range t.peers { // on a busy disk a process can take its time to die
		if err := t.ends(ctx, m, 20*time.Second); err != nil {
			return err
		}
	}
	for _, m := range t.peers {
		if err := t.start(ctx, m); err != nil {
			return err
		}
	}
	pause(ctx, 6*time.Second)
	return nil
}

func (t *trial) rolling(ctx context.Context) error {
	for _, m := range t.peers {
		if _, err := m.do(ctx, "systemctl restart "+peerService+`
until curl -fsS "http://$(hostname -i):7300/readyz"; do sleep 0.2; done`); err != nil {
			return err
		}
	}
	return nil
}

// ends waits for a peer that must end itself.
func (t *trial) ends(ctx context.Context, m *machine, within time.Duration) error {
	for began := time.Now(); m.pid(peerService) != 0; pause(ctx, 50*time.Millisecond) {
		if time.Since(began) > within {
			return fmt.Errorf("%s has not ended within %v", m.name, within)
		}
	}
	return nil
}

func (t *trial) fullDisk(ctx context.Context) error {
	m, err := t.leader(ctx)
	if err != nil {
		return err
	}
	ballast := filepath.Join(m.dir, "var", "ballast")
	_ = sh(ctx, "dd if=/dev/zero of=%s bs=4k 2>/dev/null", ballast) // ends when nothing is free
	pause(ctx, 10*time.Second)
	now, err := t.leader(ctx)
	if err != nil {
		return err
	}
	if now == m { // the load is what shows that its writes still land
		fmt.Println("      it leads on, in the room that its log had made ahead")
	}
	if err := os.Remove(ballast); err != nil {
		return err
	}
	if m.pid(peerService) == 0 { // not even its term could be noted
		return t.start(ctx, m)
	}
	return nil
}

func (t *trial) frozenDisk(ctx context.Context) error {
	m, err := t.leader(ctx)
	if err != nil {
		return err
	}
	if err := sh(ctx, "fsfreeze -f %s", filepath.Join(m.dir, "var")); err != nil {
		return err
	}
	pause(ctx, 10*time.Second)
	m.thaw()
	if err := t.ends(ctx, m, 10*time.Second); err != nil {
		return err
	}
	return t.start(ctx, m)
}
