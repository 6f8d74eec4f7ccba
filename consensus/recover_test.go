package consensus

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"berth/fleet"
)

func quiet() *slog.Logger { return slog.New(slog.DiscardHandler) }

// killAll ends every peer at once, as a power cut does.
func (r *rig) killAll() {
	for _, id := range []string{"peer-1", "peer-2", "peer-3"} {
		r.kill(id)
	}
}

func TestRecoveryFromALostQuorum(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.dir = t.TempDir()
		leader := r.three()
		for i := range 30 {
			r.write(leader, fmt.Sprintf("kept-%d", i))
		}
		r.same(leader)
		was := leader.machine.State().Index()
		dir := filepath.Join(r.dir, "peer-1")
		peers := []Candidate{{"peer-1", "peer-1:7301"}, {"peer-2", "peer-2:7301"}}
		if _, err := PrepareRecovery(t.Context(), dir, peers, time.Now(), quiet()); err == nil {
			t.Fatal("the directory of a running peer is taken")
		}
		r.killAll()
		recovery, err := PrepareRecovery(t.Context(), dir, peers, time.Now(), quiet())
		if err != nil {
			t.Fatal(err)
		}
		for _, want := range []string{"- epoch   1\n", "- peer    peer-3 at peer-3:7301, voter\n", "+ peer    peer-2 at peer-2:7301, no vote", "  peer    peer-1 at peer-1:7301, voter\n", "state   index " + was.String()} {
			if !strings.Contains(recovery.Diff(), want) {
				t.Errorf("the diff lacks %q:\n%s", want, recovery.Diff())
			}
		}
		if err := recovery.Commit(); err != nil {
			t.Fatal(err)
		}
		if err := recovery.Close(); err != nil {
			t.Fatal(err)
		}
		r.recovered(was)
	})
}

// recovered starts the survivor, then another peer with the data that it had, and at last the third with a directory that is no longer right.
func (r *rig) recovered(was fleet.Index) {
	r.t.Helper()
	leader := r.start("peer-1", -1)
	r.until("the survivor leads alone", func() bool { return leader.IsLeader() && leader.CaughtUp() })
	now := leader.machine.State().Index()
	if _, ok := leader.machine.State().Server("kept-29"); !ok || now.Epoch <= was.Epoch {
		r.t.Errorf("recovered at %s, before it was %s", now, was)
	}
	r.write(leader, "after")
	second := r.start("peer-2", -1)
	r.until("the other follows and has a vote", func() bool {
		_, ok := second.machine.State().Server("after")
		return ok && len(leader.Servers()) == 2 && leader.Servers()[1].Voter
	})
	r.same(leader)
	third := r.start("peer-3", -1)
	time.Sleep(30 * time.Second)
	if third.IsLeader() || len(leader.Servers()) != 2 {
		r.t.Error("a peer that was left out takes part")
	}
	r.write(r.leader(), "later")
}

func TestRecoveryRefusesWhatCannotBeRight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.dir = t.TempDir()
		p := r.startAlone("peer-1")
		r.write(p, "a")
		r.kill("peer-1")
		dir := filepath.Join(r.dir, "peer-1")
		for want, peers := range map[string][]Candidate{
			"is not among those named": {{"peer-2", "peer-2:7301"}},
			"named twice":              {{"peer-1", "peer-1:7301"}, {"peer-2", "peer-1:7301"}},
			"the peer name":            {{"peer 1", "peer-1:7301"}},
		} {
			if _, err := PrepareRecovery(t.Context(), dir, peers, time.Now(), quiet()); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%v: %v, want %q", peers, err, want)
			}
		}
		if _, err := PrepareRecovery(t.Context(), t.TempDir(), nil, time.Now(), quiet()); err == nil || !strings.Contains(err.Error(), "not the data directory of a peer") {
			t.Errorf("an empty directory: %v", err)
		}
		q := r.start("peer-1", -1) // nothing was changed, and the lock was given back
		r.until("it leads as before", q.IsLeader)
		if _, ok := q.machine.State().Server("a"); !ok || q.machine.State().Cluster().Epoch != 1 {
			t.Error("a refused recovery has changed something")
		}
	})
}

// newerEntry is a whole entry of a kind that this release does not know.
func newerEntry() []byte {
	text := []byte(`{"kind":"model.unheard-of","meta":{"level":1},"body":{}}`)
	data := binary.BigEndian.AppendUint32([]byte{1}, crc32.Checksum(text, crc32.MakeTable(crc32.Castagnoli)))
	return append(data, text...)
}

func TestSkippingAnEntryThatNoPeerCanApply(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.dir = t.TempDir()
		leader := r.three()
		r.write(leader, "before")
		good := leader.AppliedIndex()
		f := leader.raft.Apply(newerEntry(), time.Second)
		_ = f.Error()
		index := f.Index()
		r.until("two peers have stopped at it, and the third alone cannot go on", func() bool {
			stopped := 0
			for _, p := range r.all {
				if p.failure() != nil {
					stopped++
				}
			}
			return stopped == 2
		})
		r.killAll()
		for _, id := range []string{"peer-1", "peer-2", "peer-3"} {
			r.skip(id, good, index)
		}
		for _, id := range []string{"peer-1", "peer-2", "peer-3"} {
			r.start(id, -1)
		}
		leader = r.leader()
		r.write(leader, "after")
		r.same(leader)
		if _, ok := leader.machine.State().Server("before"); !ok {
			t.Error("what was before the entry is gone")
		}
	})
}

func (r *rig) skip(id string, good, index uint64) {
	r.t.Helper()
	dir := filepath.Join(r.dir, id)
	for at, want := range map[uint64]string{good: "can be applied", index + 100: "there is no entry", 1: "one of raft's own"} {
		if _, err := PrepareSkip(r.t.Context(), dir, at, quiet()); err == nil || !strings.Contains(err.Error(), want) {
			r.t.Errorf("%s: skip %d: %v, want %q", id, at, err, want)
		}
	}
	s, err := PrepareSkip(r.t.Context(), dir, index, quiet())
	if err != nil {
		r.t.Fatal(err)
	}
	if !strings.Contains(s.Diff(), "model.unheard-of") {
		r.t.Errorf("the diff does not name the kind:\n%s", s.Diff())
	}
	if err := s.Commit(); err != nil {
		r.t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		r.t.Fatal(err)
	}
}
