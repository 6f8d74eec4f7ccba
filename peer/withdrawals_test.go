package peer

import (
	"testing"
	"time"

	"berth/fleet"
	"berth/fleet/wire"
	"berth/fsm"
)

// quietGang is a gang over two nodes that was ready and is in a conditional drain since a moment.
func quietGang(t *testing.T, at time.Time) (*fsm.Machine, string, func(fsm.Command)) {
	t.Helper()
	m, id, do := gang(t, at)
	report := func(rank int, to string) {
		r, _ := m.State().Replica(id)
		do(fsm.ReplicaTransitions{Node: r.Shards[rank].Node, Instance: 1, Items: []wire.Transition{{
			Replica: id, Rank: rank, Order: r.Order, Start: r.Start, To: to, Door: &fleet.Door{Address: "n1:20000", Key: "k"}, Master: "n1:29500",
		}}})
	}
	report(0, wire.BecameStarting)
	report(0, wire.BecameReady)
	zero := 0
	do(fsm.PlanApply{Plan: fleet.Plan{Items: []fleet.PlanItem{{Stop: &fleet.StopItem{Replica: id, Reason: "quiet 1h", Mark: &fleet.Mark{Shim: 1, Engine: 1}, Want: &zero}}}}})
	return m, id, do
}

// A gang that was to be unloaded for being quiet is ready again when its door cannot be heard: its other ranks never hear of an end.
func TestAConditionalDrainWhoseDoorIsNotHeardIsTakenBack(t *testing.T) {
	at := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	m, id, do := quietGang(t, at)
	for name, c := range map[string]struct {
		silent []string
		after  time.Duration
		want   int
	}{
		"everybody is heard":    {nil, time.Hour, 0},
		"rank 1 is silent":      {[]string{"n2"}, time.Hour, 0},
		"rank 0 has only begun": {[]string{"n1"}, withdrawAfter - time.Second, 0},
		"rank 0 is silent":      {[]string{"n1"}, withdrawAfter, 1},
		"a node is gone":        {[]string{"n9", "n1"}, withdrawAfter, 1},
	} {
		if got := undecided(m.State(), c.silent, at.Add(c.after)); len(got) != c.want {
			t.Errorf("%s: %+v", name, got)
		}
	}
	do(undecided(m.State(), []string{"n1"}, at.Add(withdrawAfter))[0])
	r, _ := m.State().Replica(id)
	model, _ := m.State().Model("m")
	if r.State != fleet.Ready || r.Drain != nil || model.Want != 1 {
		t.Fatalf("taken back: %s, drain %+v, %d wanted", r.State, r.Drain, model.Want)
	}
	for _, node := range []string{"n1", "n2"} {
		if o := m.State().Orders(node); len(o) != 1 || o[0].Action != wire.ActionRun || o[0].ID != r.Order {
			t.Errorf("%s is told %+v", node, o)
		}
	}
	if again := undecided(m.State(), []string{"n1"}, at.Add(time.Hour)); len(again) > 0 {
		t.Errorf("again: %+v", again)
	}
}

func TestWhatIsUnreachableIsNotTakenBack(t *testing.T) {
	at := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	m, id, do := quietGang(t, at)
	do(fsm.NodeLiveness{Node: "n1", Instance: 1, Unreachable: true, Reason: "silent"})
	if got := undecided(m.State(), []string{"n1"}, at.Add(time.Hour)); len(got) > 0 {
		t.Errorf("%s is lost, and %+v", id, got)
	}
}
