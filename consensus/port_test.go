package consensus

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"berth/fleet"
	"berth/fsm"
	"berth/internal/durable"
	"berth/internal/listen"
)

func TestForeignClusterIsRefusedAndTheTermStays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		leader := r.three()
		term := leader.Term()
		var victim *peer
		for _, p := range r.all {
			if p != leader {
				victim = p
			}
		}
		stranger := r.startAlone("stranger")
		// The mistake of an operator: an address of this cluster added to another one.
		if err := stranger.AddNonvoter(t.Context(), victim.ID(), victim.Address(), false); err != nil {
			t.Fatal(err)
		}
		_ = stranger.Promote(t.Context(), victim.ID(), true)
		time.Sleep(30 * time.Second)
		if victim.Term() != term || !leader.IsLeader() {
			t.Errorf("term %d became %d", term, victim.Term())
		}
		if got := strings.Count(victim.log.text(), "wrong_cluster") + strings.Count(victim.log.text(), "belongs to cluster"); got != 1 {
			t.Errorf("%d lines about it, want 1:\n%s", got, victim.log.text())
		}
		r.write(leader, "a")
		r.same0(leader, victim)
	})
}

// startAlone starts a cluster of one beside the others.
func (r *rig) startAlone(id string) *peer {
	p := r.start(id, -1)
	if err := p.Bootstrap(r.t.Context(), 1, func() []Candidate { return nil }); err != nil {
		r.t.Fatal(err)
	}
	r.until(id+" leads itself", func() bool { return p.IsLeader() && p.machine.State().Cluster().ID != "" })
	return p
}

func (r *rig) same0(p *peer, others ...*peer) {
	r.t.Helper()
	for _, q := range others {
		if err := q.WaitApplied(r.t.Context(), p.AppliedIndex()); err != nil {
			r.t.Fatal(err)
		}
		if q.machine.State().Fingerprint() != p.machine.State().Fingerprint() {
			r.t.Errorf("%s differs from %s", q.ID(), p.ID())
		}
	}
}

func TestAdmit(t *testing.T) {
	promised := &Promise{Cluster: "c-1", Proposer: "peer-1"}
	for name, c := range map[string]struct {
		me   record
		kind byte
		h    hello
		want fleet.Code // empty: admitted
	}{
		"member":             {record{ID: "b", Cluster: "c-1"}, kindRaft, hello{Cluster: "c-1", From: "a", To: "b"}, ""},
		"own id":             {record{ID: "b", Cluster: "c-1"}, kindCall, hello{Cluster: "c-1", From: "b", To: "b"}, fleet.DuplicateID},
		"wrong door":         {record{ID: "b", Cluster: "c-1"}, kindRaft, hello{Cluster: "c-1", From: "a", To: "c"}, fleet.Conflict},
		"raft to nobody":     {record{ID: "b", Cluster: "c-1"}, kindRaft, hello{Cluster: "c-1", From: "a", To: ""}, fleet.Conflict},
		"foreign":            {record{ID: "b", Cluster: "c-1"}, kindRaft, hello{Cluster: "c-2", From: "a", To: "b"}, fleet.WrongCluster},
		"foreign call":       {record{ID: "b", Cluster: "c-1"}, kindCall, hello{Cluster: "c-2", From: "a", To: ""}, fleet.WrongCluster},
		"blank speaks raft":  {record{ID: "b", Cluster: "c-1"}, kindRaft, hello{Cluster: "", From: "a", To: "b"}, fleet.WrongCluster},
		"blank asks":         {record{ID: "b", Cluster: "c-1"}, kindCall, hello{Cluster: "", From: "a", To: ""}, ""},
		"to a blank":         {record{ID: "b"}, kindRaft, hello{Cluster: "c-1", From: "a", To: "b"}, fleet.NotReady},
		"to a promised one":  {record{ID: "b", Promise: promised}, kindRaft, hello{Cluster: "c-1", From: "a", To: "b"}, ""},
		"to one of another":  {record{ID: "b", Promise: promised}, kindRaft, hello{Cluster: "c-2", From: "a", To: "b"}, fleet.NotReady},
		"call to a promised": {record{ID: "b", Promise: promised}, kindCall, hello{Cluster: "c-2", From: "a", To: "b"}, ""},
	} {
		got := fleet.Code("")
		if err := admit(c.me, c.kind, c.h); err != nil {
			got = err.Code
		}
		if got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

func TestPortShutsOutWhatIsNotAPeer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		p := r.startAlone("peer-1")
		for name, text := range map[string]string{
			"a browser":       "GET / HTTP/1.1\r\nHost: peer-1\r\n\r\n",
			"another version": "BRFT\x02R",
			"another kind":    "BRFT\x01X",
			"a huge frame":    "BRFT\x01C\xff\xff\xff\xff",
			"silence":         "",
		} {
			c, err := r.net.Host("scanner").Dial(t.Context(), p.Address())
			if err != nil {
				t.Fatal(err)
			}
			_, _ = io.WriteString(c, text)
			start := time.Now()
			if _, err := c.Read(make([]byte, 1)); err == nil {
				t.Errorf("%s got an answer", name)
			}
			if took := time.Since(start); took > helloWait+time.Second {
				t.Errorf("%s held a connection for %v", name, took)
			}
			_ = c.Close()
		}
	})
}

func TestSecondProcessOnADataDirectory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.dir = t.TempDir()
		r.startAlone("peer-1")
		c := r.config("peer-1")
		c.Log = slog.New(slog.DiscardHandler)
		_, err := Open(c)
		if !errors.Is(err, durable.ErrLocked) || !strings.Contains(fmt.Sprint(err), filepath.Join(r.dir, "peer-1")) {
			t.Errorf("second open: %v", err)
		}
	})
}

func TestDataDirectoryOfAnotherPeer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.dir = t.TempDir()
		r.startAlone("peer-1")
		r.kill("peer-1")
		c := r.config("peer-2")
		c.Log = slog.New(slog.DiscardHandler)
		c.DataDir = filepath.Join(r.dir, "peer-1")
		if _, err := Open(c); err == nil || !strings.Contains(err.Error(), `belongs to peer "peer-1"`) {
			t.Errorf("open: %v", err)
		}
	})
}

func TestValidateListsEverything(t *testing.T) {
	err := Config{ID: "no spaces allowed", Bind: "nowhere", Advertise: "x", Timings: Timings{Multiplier: 99, TrailingLogs: 1}}.Validate()
	for _, part := range []string{"no spaces allowed", "network, machine and log", `"nowhere"`, `"x"`, "multiplier 99", "trailing logs (1)"} {
		if err == nil || !strings.Contains(err.Error(), part) {
			t.Errorf("%q is not in: %v", part, err)
		}
	}
	ok := Config{ID: "peer-1", Bind: "127.0.0.1:0", Network: listen.System, Machine: fsm.New(), Log: slog.New(slog.DiscardHandler)}
	if err := ok.Validate(); err != nil {
		t.Error(err)
	}
}

func FuzzReceive(f *testing.F) {
	good, _ := encodeFrame(hello{Cluster: "c-1", From: "a", To: "b"})
	f.Add(append([]byte("BRFT\x01R"), good...))
	f.Add([]byte("BRFT\x01C\x00\x00\x00\x02{}"))
	f.Add([]byte("GET / HTTP/1.1"))
	f.Fuzz(func(t *testing.T, data []byte) {
		kind, h, err := receive(bytes.NewReader(data))
		if err == nil && (kind != kindRaft && kind != kindCall || !bytes.HasPrefix(data, []byte(portMagic))) {
			t.Errorf("%q was taken for %q %+v", data, kind, h)
		}
	})
}

func TestAPeerThatDialsItselfIsNotADuplicate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.net.Host("peer-1", "192.0.2.1")
		p := r.startAlone("peer-1")
		at := Candidate{Address: "192.0.2.1:7301"} // its own, by another name
		if _, err := p.Probe(t.Context(), at); fleet.CodeOf(err) != fleet.DuplicateID || strings.Contains(p.log.text(), "duplicate") {
			t.Errorf("probe of itself: %v\n%s", err, p.log.text())
		}
		clone := &identity{instance: "another", rec: record{ID: "peer-1"}}
		q := &port{me: clone, network: r.net.Host("elsewhere"), log: p.cfg.Log, conns: map[*portConn]struct{}{}}
		if _, _, err := q.dial(t.Context(), kindCall, at); fleet.CodeOf(err) != fleet.DuplicateID {
			t.Errorf("a second peer of one id: %v", err)
		}
		synctest.Wait()
		if !strings.Contains(p.log.text(), "two peers were started") {
			t.Errorf("nobody is told of the clone:\n%s", p.log.text())
		}
	})
}
