package peer

import (
	"testing"
	"time"

	"berth/fleet"
	"berth/fleet/wire"
	"berth/fsm"
)

// gangState is a gang over two nodes that is draining since a moment.
func gangState(t *testing.T, at time.Time) (*fsm.Machine, string, func(fsm.Command)) {
	t.Helper()
	m, id, do := gang(t, at)
	do(fsm.ReplicaStop{Replica: id, Reason: "asked"})
	return m, id, do
}

// gang is a gang over two nodes that was just placed, made by the real commands.
func gang(t *testing.T, at time.Time) (*fsm.Machine, string, func(fsm.Command)) {
	t.Helper()
	m := fsm.New()
	index := uint64(0)
	do := func(c fsm.Command) {
		t.Helper()
		index++
		data, err := fsm.Encode(fsm.Meta{At: fleet.TimeOf(at)}, c)
		if err != nil {
			t.Fatal(err)
		}
		out, err := m.Apply(index, data)
		if err != nil || out.Err != nil || len(out.Items) > 0 && out.Items[0] != nil {
			t.Fatalf("%s: %v %v %v", c.Kind(), err, out.Err, out.Items)
		}
	}
	do(fsm.ClusterCreate{ID: "c"})
	for _, n := range []string{"n1", "n2"} {
		do(fsm.NodeRegister{Registration: wire.Registration{Version: 1, Name: n, ID: "id-" + n, Instance: 1, Address: n + ":7310",
			Inventory: fleet.Inventory{Fabric: "f", GPUs: []fleet.GPU{{UUID: "g-" + n, Class: "c", Memory: fleet.GiB, Health: fleet.Healthy}}},
			Engines:   []fleet.EngineOffer{{Driver: "sim", Hub: true, SpanNodes: true}}}})
	}
	spec := fleet.DefaultedSpec()
	spec.Version, spec.Kind, spec.Name = 1, "model", "m"
	spec.Engine = fleet.EngineSpec{Driver: "sim", Weights: "w"}
	spec.Placement = fleet.PlacementSpec{Nodes: 2, GPUsPerNode: 1}
	do(fsm.ModelApply{Spec: spec})
	shard := func(n string) fleet.Shard { return fleet.Shard{Node: n, Claims: []fleet.Claim{{GPU: "g-" + n}}} }
	do(fsm.PlanApply{Plan: fleet.Plan{Items: []fleet.PlanItem{{Place: &fleet.PlaceItem{Model: "m", Generation: 1, Shards: []fleet.Shard{shard("n1"), shard("n2")}}}}}})
	var id string
	for r := range m.State().Replicas() {
		id = r.ID
	}
	return m, id, do
}

func TestAGangWhoseDoorDoesNotSpeakIsEndedAfterTheDeadline(t *testing.T) {
	at := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	m, id, do := gangState(t, at)
	deadline := fleet.DefaultedSpec().Drain.Deadline.Std()
	if late, next := doorsLate(m.State(), at.Add(deadline)); len(late) != 0 || next != doorSlack {
		t.Errorf("at the deadline: %v late, looking again in %s", late, next)
	}
	late, _ := doorsLate(m.State(), at.Add(deadline+doorSlack))
	if len(late) != 1 || late[0] != id {
		t.Fatalf("after the deadline: %v late", late)
	}
	do(fsm.ReplicaFail{Replica: id, Reason: "late"})
	orders := m.State().Orders("n2")
	if len(orders) != 1 || orders[0].Action != wire.ActionStop || !orders[0].Drain.DoorShut {
		t.Errorf("rank 1 is told %+v", orders)
	}
	if r, _ := m.State().Replica(id); r.Shards[0].Released || r.Shards[1].Released {
		t.Error("claims were released without a proof")
	}
	if late, _ := doorsLate(m.State(), at.Add(time.Hour)); len(late) != 0 {
		t.Errorf("%v late again", late)
	}
}
