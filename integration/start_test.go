package integration

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"berth/demo/stage"
	"berth/internal/procs"
)

// A mistake in a command line ends with 64, one clear line, and nothing on disk.
func TestWrongCommandLines(t *testing.T) {
	wrongType := filepath.Join(t.TempDir(), "agent.yaml")
	if err := os.WriteFile(wrongType, []byte("version: 1\nname: gpu-017\nmodel_roots: {srv: models}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for args, say := range map[string][]string{
		"berth peer --bootstrap-expects 3":                      {"unknown flag: --bootstrap-expects", "--help"},
		"berth peers":                                           {`no role "peers"`, "peer"},
		"berth peer --bootstrap-expect three":                   {"bootstrap-expect", "three"},
		"berth peer --bind 192.0.2.1:7300 --bootstrap-expect 1": {"192.0.2.1:7300", "--insecure-no-tls"},
		"berth router":                                          {"--join", "--peer"},
		"berth router --peer peer-1:7300/api":                   {"peer-1:7300/api", "http://HOST:7300"},
		"berth agent --join 127.0.0.1 --gpus radeon":            {"radeon", "nvidia-smi"},
		"berth agent --join 127.0.0.1 --engine-ports 9000-":     {"--engine-ports"},
		"berth agent --join 127.0.0.1 --config " + wrongType:    {wrongType, ":3:", "model_roots"},
		"berth agent --config none.yaml":                        {"none.yaml"},
		"berthctl modell list":                                  {"modell", "did you mean model?"},
		"berthctl model lists":                                  {"lists", "list"},
		"berthctl model apply":                                  {"-f FILE"},
		"berthctl model scale m":                                {"scale"},
		"berthctl --addr http:// status":                        {"http://", "HOST"},
	} {
		t.Run(args, func(t *testing.T) { refuses(t, args, say) })
	}
}

// refuses runs a command line that must be refused, and looks for what must be said.
func refuses(t *testing.T, args string, say []string) {
	dir := t.TempDir()
	words := strings.Fields(args)
	got := run(t, dir, words[0], words[1:]...)
	if got.code != 64 {
		t.Errorf("ended with %d, want 64", got.code)
	}
	for _, want := range say {
		if !strings.Contains(got.err, want) {
			t.Errorf("said %q, want %q in it", got.err, want)
		}
	}
	if n := len(strings.Split(strings.TrimSpace(got.err), "\n")); n > 3 {
		t.Errorf("%d lines:\n%s", n, got.err)
	}
	if left, _ := os.ReadDir(dir); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

// A role whose port is taken says which one, and ends.
func TestPortInUse(t *testing.T) {
	srv := httptest.NewServer(http.NotFoundHandler())
	defer srv.Close()
	taken := srv.Listener.Addr().String()
	for _, c := range []struct {
		role  string
		flags []string // which may be the one that is taken
		more  []string
	}{
		{"peer", []string{"--bind", "--raft-bind", "--gossip-bind"}, []string{"--bootstrap-expect", "1"}},
		{"router", []string{"--bind", "--ops-bind", "--gossip-bind"}, []string{"--join", "127.0.0.1"}},
		{"agent", []string{"--bind", "--gossip-bind"}, []string{"--join", "127.0.0.1", "--gpus", "none"}},
	} {
		for _, bad := range c.flags {
			t.Run(c.role+" "+bad, func(t *testing.T) {
				args := append([]string{c.role, "--name", "x", "--data-dir", filepath.Join(t.TempDir(), "data")}, c.more...)
				for _, flag := range c.flags {
					if flag == bad {
						args = append(args, flag, taken)
					} else {
						args = append(args, flag, freeAddr(t))
					}
				}
				got := run(t, t.TempDir(), "berth", args...)
				if why := last(got.err); got.code != 1 || !strings.Contains(why, taken) || !strings.Contains(why, "in use") {
					t.Errorf("ended with %d and %q; want 1, the address %s and that it is in use", got.code, why, taken)
				}
			})
		}
	}
}

func freeAddr(t *testing.T) string {
	t.Helper()
	p, err := ports.Take(1)
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("127.0.0.1:%d", p)
}

func onePeer() stage.Config { return stage.Config{Peers: 1} }

// leads waits until the cluster can be written to.
func leads(t *testing.T, s *stage.Stage) {
	t.Helper()
	until(t, 20*time.Second, func(ctx context.Context) error {
		_, err := s.Do(ctx, "settings", "show")
		return err
	})
}

func TestDataDirectoryLockedByAnotherPeer(t *testing.T) {
	s := cluster(t, onePeer())
	leads(t, s)
	got := run(t, t.TempDir(), "berth", "peer", "--name", "peer-1", "--data-dir", s.Path("peer-1"), "--bootstrap-expect", "1",
		"--bind", "127.0.0.1:0", "--raft-bind", "127.0.0.1:0", "--gossip-bind", "127.0.0.1:0")
	if why := last(got.err); got.code != 1 || !strings.Contains(why, s.Path("peer-1")) || !strings.Contains(why, "in use") {
		t.Errorf("ended with %d and %q; want 1, the directory, and that it is in use", got.code, why)
	}
	leads(t, s) // the one that has it goes on
}

// A peer that belongs to one cluster and is told to join another one says so, and neither cluster changes.
func TestDataDirectoryOfAnotherCluster(t *testing.T) {
	ours, theirs := cluster(t, onePeer()), cluster(t, onePeer())
	leads(t, ours)
	leads(t, theirs)
	if err := ours.Peers[0].Stop(stage.Patience); err != nil {
		t.Fatal(err)
	}
	p, err := ours.Group.Start("stranger", ours.Program("berth"), "peer", "--name", "peer-1", "--data-dir", ours.Path("peer-1"), "--bootstrap-expect", "1",
		"--bind", "127.0.0.1:0", "--raft-bind", "127.0.0.1:0", "--gossip-bind", "127.0.0.1:0", "--join", theirs.Peers[0].Gossip())
	if err != nil {
		t.Fatal(err)
	}
	until(t, 15*time.Second, func(context.Context) error {
		log := strings.Join(p.Log(100), "\n")
		if !strings.Contains(log, "belongs to cluster") && !strings.Contains(log, "another cluster") {
			return fmt.Errorf("no line says that the peer belongs to another cluster:\n%s", log)
		}
		return nil
	})
	peers, err := theirs.Do(t.Context(), "peers")
	if err != nil || strings.Count(peers, "peer-1") != 1 {
		t.Errorf("the other cluster lists, %v:\n%s", err, peers)
	}
}

// A gossip address at which something else answers is named, and the role goes on looking.
func TestGossipAddressOfSomethingElse(t *testing.T) {
	web := httptest.NewServer(http.NotFoundHandler())
	defer web.Close()
	other := web.Listener.Addr().String()
	g, err := procs.NewGroup("berth-integration-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := g.Close(stage.Patience); err != nil {
			t.Error(err)
		}
	})
	p, err := g.Start("agent", filepath.Join(programs(t), "berth"), "agent", "--name", "gpu-017", "--gpus", "none", "--data-dir", g.Path("agent"),
		"--bind", "127.0.0.1:0", "--gossip-bind", "127.0.0.1:0", "--join", other)
	if err != nil {
		t.Fatal(err)
	}
	until(t, 20*time.Second, func(context.Context) error {
		for _, line := range p.Log(100) {
			if strings.Contains(line, other) && strings.Contains(line, "gossip port") {
				return nil
			}
		}
		return fmt.Errorf("no line names %s and says what should answer there:\n%s", other, strings.Join(p.Log(100), "\n"))
	})
	if !p.Alive() {
		t.Error("the agent has given up; the right one may come up there later")
	}
}
