package peer

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"

	"berth/fleet"
	"berth/fleet/wire"
	"berth/fsm"
)

// recorder is a state machine with its history, written down when a test says so.
type recorder struct {
	t       *testing.T
	machine *fsm.Machine
	history *history
	index   uint64
	events  []wire.Event
}

func newRecorder(t *testing.T) *recorder {
	r := &recorder{t: t, machine: fsm.New()}
	r.history = newHistory(r.machine, func(e wire.Event) { r.events = append(r.events, e) })
	r.by("leader", fsm.ClusterCreate{ID: "c1"})
	return r
}

func (r *recorder) by(who string, c fsm.Command) {
	r.t.Helper()
	r.index++
	data, err := fsm.Encode(fsm.Meta{At: fleet.Time(1000 * r.index), By: who}, c)
	if err != nil {
		r.t.Fatal(err)
	}
	if out, err := r.machine.Apply(r.index, data); err != nil || out.Err != nil {
		r.t.Fatalf("%s: %v, %v", c.Kind(), out.Err, err)
	}
}

// lines writes down what happened since the last call.
func (r *recorder) lines() []string {
	r.history.catchUp()
	var out []string
	for _, e := range r.events {
		out = append(out, strings.Join(strings.Fields(fmt.Sprintf("%s %s %s %s %s %s: %s | %s @%d", e.Index, e.Who, e.Command, e.Kind, e.Node, e.Model, e.Text, e.Why, e.At/1000)), " "))
	}
	r.events = nil
	return out
}

func (r *recorder) wrote(want ...string) {
	r.t.Helper()
	if got := r.lines(); !slices.Equal(got, want) {
		r.t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// Each entry is written down by itself, however many come between two looks: a freeze that was thawed at once is seen too.
func TestEachAppliedChangeSaysWhoWhyAndWhere(t *testing.T) {
	r := newRecorder(t)
	r.wrote("1.1 leader cluster.create cluster : the cluster is c1 | @1")
	r.by("agent n1", registration("n1", 2))
	r.by("ann@ops-1", fsm.ModelApply{Spec: spec("m", 1, 1)})
	r.by("leader", fsm.PlanApply{Plan: fleet.Plan{Items: []fleet.PlanItem{{Place: &fleet.PlaceItem{
		Model: "m", Generation: 1, Shards: []fleet.Shard{{Node: "n1", Claims: []fleet.Claim{{GPU: "n1a"}}}}}}}}})
	r.by("ann@ops-1", fsm.FreezeSet{Freeze: &fleet.Freeze{Reason: "moving racks"}})
	r.by("ben@ops-2", fsm.FreezeSet{})
	r.by("ann@ops-1", fsm.NodeAdmin{Node: "n1", Admin: fleet.Cordoned, Reason: "new fans"})
	settings := fleet.DefaultSettings()
	settings.NodeGrace = settings.Truce
	r.by("ann@ops-1", fsm.SettingsSet{Settings: settings})
	r.wrote(
		"1.2 agent n1 node.register node n1 : registered with 2 GPUs | @2",
		"1.3 ann@ops-1 model.apply model m: created, 1 wanted | @3",
		"1.4 leader plan replica n1 m: placed | @4",
		"1.5 ann@ops-1 freeze.set cluster : frozen | moving racks @5",
		"1.6 ben@ops-2 freeze.set cluster : thawed | @6",
		"1.7 ann@ops-1 node.admin node n1 : is cordoned | new fans @7",
		"1.8 ann@ops-1 settings.set cluster : settings: node_grace 1m, before 30s | @8",
	)
	r.by("ann@ops-1", fsm.NodeAdmin{Node: "n1", Admin: fleet.Cordoned, Reason: "new fans"})
	r.wrote() // it was so already
}

// What comes with a snapshot was not done by whoever wrote the next entry.
func TestASnapshotIsNobodysDoing(t *testing.T) {
	from := newRecorder(t)
	from.by("agent n1", registration("n1", 2))
	from.by("agent n2", registration("n2", 2))
	var file bytes.Buffer
	if err := from.machine.State().WriteSnapshot(&file); err != nil {
		t.Fatal(err)
	}
	to := &recorder{t: t, machine: fsm.New(), index: from.index}
	to.history = newHistory(to.machine, func(e wire.Event) { to.events = append(to.events, e) })
	if err := to.machine.Restore(&file); err != nil {
		t.Fatal(err)
	}
	to.by("ann@ops-1", fsm.NodeAdmin{Node: "n2", Admin: fleet.Cordoned, Reason: "new fans"})
	got := to.lines()
	if len(got) == 0 || !strings.Contains(got[len(got)-1], "ann@ops-1 node.admin node n2") {
		t.Fatalf("got %q", got)
	}
	for _, line := range got {
		if strings.Contains(line, "n1") || strings.Contains(line, "the cluster is") {
			t.Errorf("what was there before is told as a change: %s", line)
		}
	}
}

// A peer that reads a long log again does not keep every state of it.
func TestALongBacklogIsWrittenDownAsOne(t *testing.T) {
	r := newRecorder(t)
	for i := range historyBehind + 10 {
		r.by("ann@ops-1", fsm.FreezeSet{Freeze: &fleet.Freeze{Reason: fmt.Sprint("reason ", i)}})
	}
	got := r.lines()
	if last := fmt.Sprintf("frozen | reason %d", historyBehind+9); len(got) > 100 || !strings.Contains(got[len(got)-1], last) {
		t.Errorf("%d lines, the last is %s", len(got), got[len(got)-1])
	}
}
