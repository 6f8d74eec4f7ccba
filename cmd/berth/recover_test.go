package main

import (
	"context"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"berth/consensus"
	"berth/fsm"
	"berth/internal/listen"
	"berth/internal/memnet"
)

// onePeer runs a peer on a data directory until something has been done with it.
func onePeer(t *testing.T, dir string, expect int, do func(*consensus.Node, *fsm.Machine)) {
	t.Helper()
	m := fsm.New()
	n, err := consensus.Open(consensus.Config{
		ID: "peer-1", DataDir: dir, Network: memnet.New(1).Host("peer-1"), Bind: "peer-1:7301", Policy: listen.Policy{InsecureNoTLS: true},
		Machine: m, Log: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel()
	wg.Go(func() { _ = n.Run(ctx) })
	wg.Go(func() { _ = n.Lead(ctx, func(ctx context.Context, _ uint64) error { <-ctx.Done(); return nil }) })
	if expect > 0 {
		if err := n.Bootstrap(ctx, expect, func() []consensus.Candidate { return nil }); err != nil {
			t.Fatal(err)
		}
	}
	for start := time.Now(); !n.IsLeader() || !n.CaughtUp(); time.Sleep(10 * time.Millisecond) {
		if time.Since(start) > time.Minute {
			t.Fatal("no leader within a minute")
		}
	}
	do(n, m)
}

func TestRecoverCommand(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		onePeer(t, dir, 1, func(n *consensus.Node, _ *fsm.Machine) {
			if _, err := n.Propose(t.Context(), fsm.Meta{}, fsm.ClusterCreate{ID: n.Cluster()}); err != nil {
				t.Fatal(err)
			}
		})
		for _, c := range []struct {
			args string
			code int
			want string
		}{
			{"--peers peer-1=peer-1:7301", exitUsage, "repeat with --yes"},
			{"--peers peer-1", exitUsage, "not ID=HOST:PORT"},
			{"--peers peer-2=peer-2:7301 --yes", 1, "not among those named"},
			{"--skip 99 --yes", 1, "there is no entry 99"},
			{"--skip 1 --peers peer-1=peer-1:7301", exitUsage, "say one of --peers"},
			{"", exitUsage, "say one of --peers"},
			{"--moved --compact", exitUsage, "say one of --peers"},
			{"--moved", exitUsage, "repeat with --yes"},
			{"--compact", exitUsage, "repeat with --yes"},
		} {
			code, _, stderr := berth(append([]string{"peer", "recover", "--data-dir", dir}, strings.Fields(c.args)...)...)
			if code != c.code || !strings.Contains(stderr, c.want) {
				t.Errorf("recover %s: code %d, want %d\n%s want %q", c.args, code, c.code, stderr, c.want)
			}
		}
		onePeer(t, dir, 0, func(_ *consensus.Node, m *fsm.Machine) {
			if e := m.State().Cluster().Epoch; e != 1 {
				t.Errorf("epoch %d after nothing was done", e)
			}
		})
		code, stdout, stderr := berth("peer", "recover", "--data-dir", dir, "--peers", "peer-1=peer-1:7301", "--yes")
		if code != 0 || !strings.Contains(stdout, "- epoch   1\n") || !strings.HasSuffix(stdout, "done\n") {
			t.Fatalf("code %d\n%s%s", code, stdout, stderr)
		}
		onePeer(t, dir, 0, func(_ *consensus.Node, m *fsm.Machine) {
			if e := m.State().Cluster().Epoch; e <= 1 {
				t.Errorf("epoch %d after a recovery", e)
			}
		})
	})
}
