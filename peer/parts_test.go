package peer

import (
	"slices"
	"strings"
	"testing"
	"time"

	"berth/consensus"
	"berth/fleet"
	"berth/fleet/wire"
	"berth/fsm"
	"berth/peer/board"
)

// stateOf is the state after these commands.
func stateOf(t *testing.T, commands ...fsm.Command) *fsm.Machine {
	t.Helper()
	m := fsm.New()
	for i, c := range append([]fsm.Command{fsm.ClusterCreate{ID: "c1"}}, commands...) {
		data, err := fsm.Encode(fsm.Meta{At: fleet.TimeOf(time.Now()), By: "test"}, c)
		if err != nil {
			t.Fatal(err)
		}
		out, err := m.Apply(uint64(i+1), data)
		if err != nil || out.Err != nil {
			t.Fatalf("%s: %v, %v", c.Kind(), out.Err, err)
		}
	}
	return m
}

func registration(name string, gpus int) fsm.NodeRegister {
	r := wire.Registration{
		Version: wire.Version, Name: name, ID: "id-" + name, Instance: 1, Address: name + ":7310", EngineAddress: name, Level: 1,
		Engines:   []fleet.EngineOffer{{Driver: "sim", Version: "1.0.0", Hub: true, SpanNodes: true}},
		Inventory: fleet.Inventory{Source: "file", Fabric: "fa", CPUs: 64, Memory: 512 * fleet.GiB},
	}
	for i := range gpus {
		r.Inventory.GPUs = append(r.Inventory.GPUs, fleet.GPU{
			UUID: name + string(rune('a'+i)), Index: i, Class: "h100-sxm-80gb", Memory: 80 * fleet.GiB, Health: fleet.Healthy,
		})
	}
	return fsm.NodeRegister{Registration: r}
}

func server(id string, level int) fsm.ServerAnnounce {
	return fsm.ServerAnnounce{Server: fleet.Server{ID: id, HTTP: id + ":7300", Raft: id + ":7301", MaxLevel: level}}
}

func TestLevelIsThatOfTheOldestPeer(t *testing.T) {
	three := []consensus.Server{{ID: "p1", Voter: true}, {ID: "p2", Voter: true}, {ID: "p3"}}
	old := stateOf(t, server("p1", fsm.Level), server("p2", fsm.Level)).State()
	if got := common(old, three); got != 0 {
		t.Errorf("a peer has not said what it understands, and the level is %d", got)
	}
	all := stateOf(t, server("p1", fsm.Level+1), server("p2", fsm.Level+1), server("p3", fsm.Level+1)).State()
	if got := common(all, three); got != fsm.Level {
		t.Errorf("level %d; this release understands %d", got, fsm.Level)
	}
}

func TestDeadPeersAreOverdueOnlyByTheSetting(t *testing.T) {
	servers := []consensus.Server{{ID: "p1", Heard: time.Hour}, {ID: "p2", Heard: 11 * time.Minute}, {ID: "p3", Heard: -1}, {ID: "p4", Heard: time.Second}}
	for _, c := range []struct {
		after, led time.Duration
		want       []string
	}{
		{0, 24 * time.Hour, nil},
		{10 * time.Minute, time.Minute, []string{"p2"}},
		{10 * time.Minute, 11 * time.Minute, []string{"p2", "p3"}},
	} {
		if got := overdue(servers, "p1", c.after, c.led); !slices.Equal(got, c.want) {
			t.Errorf("after %s, leading for %s: %v, want %v", c.after, c.led, got, c.want)
		}
	}
}

func newExplainer(m *fsm.Machine) *explainer {
	b := board.New(board.Config{Peer: "p1", State: m.State, Clock: func() time.Duration { return time.Hour }})
	return &explainer{state: m.State, board: b}
}

func TestFitsLooksAtTheFleetAtItsBest(t *testing.T) {
	cordoned := fsm.NodeAdmin{Node: "n1", Admin: fleet.Cordoned, Reason: "new fans"}
	e := newExplainer(stateOf(t, registration("n1", 2), cordoned))
	if err := e.Fits(spec("two", 1, 1)); err != nil {
		t.Errorf("a cordoned node could hold it one day: %v", err)
	}
	big := spec("big", 1, 1)
	big.Placement.GPUsPerNode = 3
	err := e.Fits(big)
	if fleet.CodeOf(err) != fleet.Unplaceable || !strings.Contains(err.Error(), "3") {
		t.Errorf("three cards of two: %v", err)
	}
	if err := newExplainer(stateOf(t)).Fits(big); err != nil {
		t.Errorf("in a fleet without nodes: %v", err)
	}
}

func TestDryRunPlansAsIfAppliedAndChangesNothing(t *testing.T) {
	m := stateOf(t, registration("n1", 2), fsm.ModelApply{Spec: spec("a", 1, 1)})
	e := newExplainer(m)
	before := m.State().Fingerprint()
	plan, err := e.DryRun([]fleet.ModelSpec{spec("b", 2, 2)})
	if err != nil {
		t.Fatal(err)
	}
	places := map[string]int{}
	for _, item := range plan.Items {
		if item.Place != nil {
			places[item.Place.Model]++
		}
	}
	if places["a"] != 1 || places["b"] != 1 || len(plan.Refusals) != 1 || plan.Refusals[0].Model != "b" {
		t.Errorf("two cards, three replicas: placed %v, refused %+v", places, plan.Refusals)
	}
	if m.State().Fingerprint() != before {
		t.Error("a dry run changed the state")
	}
}

func TestAppliedKeepsWantWithinTheNewBounds(t *testing.T) {
	models := []*fleet.Model{{Spec: spec("m", 0, 4), Generation: 3, Want: 4}}
	changed := spec("m", 1, 2)
	changed.Engine.Weights = "other"
	got := applied(models, changed)[0]
	if got.Want != 2 || got.Generation != 4 || models[0].Want != 4 {
		t.Errorf("after: %+v, before: %+v", got, models[0])
	}
}

func TestExplainNodeSaysWhatHoldsEachCard(t *testing.T) {
	m := stateOf(t, registration("n1", 2), fsm.ModelApply{Spec: spec("a", 1, 1)},
		fsm.PlanApply{Plan: fleet.Plan{Items: []fleet.PlanItem{{Place: &fleet.PlaceItem{
			Model: "a", Generation: 1, Shards: []fleet.Shard{{Node: "n1", Claims: []fleet.Claim{{GPU: "n1b"}}}}}}}}},
		fsm.NodeAdmin{Node: "n1", Admin: fleet.Cordoned, Reason: "new fans"})
	text, err := newExplainer(m).ExplainNode("n1")
	if err != nil {
		t.Fatal(err)
	}
	var id string
	for r := range m.State().Replicas() {
		id = r.ID
	}
	want := "node n1 is cordoned: new fans\n" +
		"gpu 0, h100-sxm-80gb, 80GiB: healthy, free\n" +
		"gpu 1, h100-sxm-80gb, 80GiB: healthy, held by " + id + "\n" +
		"model a: no (cordoned)"
	if id == "" || text != want {
		t.Errorf("got\n%s\nwant\n%s", text, want)
	}
	if _, err := newExplainer(m).ExplainNode("n9"); fleet.CodeOf(err) != fleet.NotFound {
		t.Errorf("an unknown node: %v", err)
	}
}

func TestDiscoveredAreThoseThatTheStateDoesNotKnow(t *testing.T) {
	h := &hub{members: make(map[string]member)}
	for _, m := range []member{
		{Role: roleAgent, Name: "n1", ID: "id-n1", Instance: 1},
		{Role: roleAgent, Name: "n2", ID: "another", Instance: 4, HTTP: "192.0.2.9:7310"},
		{Role: roleAgent, Name: "n3", ID: "id-n3", Instance: 1},
		{Role: rolePeer, Name: "p1"},
	} {
		h.set(m)
	}
	list := (&roster{living: h.living}).discovered(stateOf(t, registration("n1", 1), registration("n2", 1)).State())
	if len(list) != 2 || list[0].Name != "n2" || !strings.Contains(list[0].Reason, "another id") || list[1].Name != "n3" || list[1].State != stateDiscovered {
		t.Errorf("discovered: %+v", list)
	}
}

func TestPortsThatTheMachineChoosesAreAdvertisedAsBound(t *testing.T) {
	bound := addr("192.0.2.1:40001")
	for bind, want := range map[Endpoint]string{
		{Bind: "192.0.2.1:0"}:                                 "192.0.2.1:40001",
		{Bind: "192.0.2.1:7300"}:                              "192.0.2.1:7300",
		{Bind: "0.0.0.0:0", Advertise: "p1.example.net:7300"}: "p1.example.net:7300",
	} {
		if got := bind.reached(bound); got != want {
			t.Errorf("%+v: %s, want %s", bind, got, want)
		}
	}
}

type addr string

func (addr) Network() string  { return "tcp" }
func (a addr) String() string { return string(a) }
