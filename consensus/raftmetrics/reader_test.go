package raftmetrics

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"time"

	metrics "github.com/armon/go-metrics"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestLibrariesReachPrometheus(t *testing.T) {
	r, err := Install()
	if err != nil {
		t.Fatal(err)
	}
	reg := prometheus.NewPedanticRegistry()
	if err := reg.Register(r); err != nil {
		t.Fatal(err)
	}
	peer := []metrics.Label{{Name: "peer_id", Value: "peer-2"}}
	metrics.IncrCounter([]string{"raft", "apply"}, 3)
	metrics.IncrCounterWithLabels([]string{"raft", "replication", "appendEntries", "logs"}, 2, peer)
	metrics.SetGauge([]string{"raft", "peers"}, 5)
	metrics.MeasureSince([]string{"raft", "commitTime"}, time.Now().Add(-2*time.Second))
	metrics.AddSample([]string{"raft", "leader", "lastContact"}, 250)
	metrics.IncrCounter([]string{"raft", "something", "new"}, 1)

	want := `
# HELP berth_raft_peers Peers in the configuration.
# TYPE berth_raft_peers gauge
berth_raft_peers 5
# HELP berth_raft_proposals_total Entries proposed by this peer as leader.
# TYPE berth_raft_proposals_total counter
berth_raft_proposals_total 3
# HELP berth_raft_replicated_entries_total Entries sent to a follower.
# TYPE berth_raft_replicated_entries_total counter
berth_raft_replicated_entries_total{remote="peer-2"} 2
`
	if err := testutil.GatherAndCompare(reg, strings.NewReader(want), "berth_raft_peers", "berth_raft_proposals_total", "berth_raft_replicated_entries_total"); err != nil {
		t.Error(err)
	}
	if got := sum(t, reg, "berth_raft_leader_contact_age_seconds"); got != 0.25 {
		t.Errorf("250 ms are %v s", got)
	}
	if got := sum(t, reg, "berth_raft_commit_seconds"); got < 2 || got > 3 {
		t.Errorf("a commit of 2 s took %v s", got)
	}
	if problems, err := testutil.GatherAndLint(reg); err != nil || len(problems) > 0 {
		t.Errorf("%v %v", problems, err)
	}
}

func sum(t *testing.T, g prometheus.Gatherer, name string) float64 {
	t.Helper()
	families, err := g.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() == name {
			return f.GetMetric()[0].GetHistogram().GetSampleSum()
		}
	}
	t.Fatalf("no %s", name)
	return 0
}

func TestOffSaysSo(t *testing.T) {
	var out bytes.Buffer
	if err := Off(slog.New(slog.NewTextHandler(&out, nil))); err != nil {
		t.Fatal(err)
	}
	metrics.IncrCounter([]string{"raft", "apply"}, 1) // must not panic
	if !strings.Contains(out.String(), "several peers") {
		t.Errorf("log %q", out.String())
	}
}
