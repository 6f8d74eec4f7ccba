package status

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"berth/fleet"
	"berth/fleet/wire"
)

func TestModelStates(t *testing.T) {
	n1, n2 := node("n1", "fa", h100, 8), node("n2", "fa", h100, 8)
	n2.Unreachable = true
	starting := replica("r-2", "loading", n1, 1, 1)
	starting.State = fleet.Starting
	gone := replica("r-3", "gone", n1, 2, 1)
	gone.Marks = []string{"device gone"}
	deleting := model("deleting", 1)
	deleting.Deleting = true
	woken := model("woken", 0)
	woken.Want = 1

	in := healthy()
	in.with(n1, n2)
	in.Models = []*fleet.Model{model("ok", 1), model("loading", 1), model("lost", 1), model("gone", 1), model("big", 1), model("zero", 0), woken, deleting}
	in.Replicas = []*fleet.Replica{replica("r-1", "ok", n1, 0, 1), starting, gone, replica("r-4", "lost", n2, 0, 1)}
	for _, name := range []string{"big", "woken", "loading"} {
		in.Refusals = append(in.Refusals, Refused{fleet.Refusal{Model: name, Short: 1, Reason: "no room"}, 310 * time.Second})
	}
	want := map[string]string{
		"ok": "satisfied", "loading": "short", "lost": "short", "gone": "short", "big": "unplaceable", "zero": "at zero", "woken": "unplaceable", "deleting": "deleting",
	}
	for _, v := range Models(in) {
		if v.State != want[v.Name()] {
			t.Errorf("%s is %q, want %q", v.Name(), v.State, want[v.Name()])
		}
	}
	s := Summarize(in)
	if s.Models != (wire.ModelCounts{Total: 8, Satisfied: 4, Short: 4}) {
		t.Errorf("models %+v", s.Models)
	}
	if len(s.Unplaceable) != 2 || s.Unplaceable[0] != (wire.UnplaceableRow{Model: "big", SinceSeconds: 310, Reason: "no room"}) || s.Unplaceable[1].Model != "woken" {
		t.Errorf("unplaceable %+v", s.Unplaceable)
	}
}

func TestIdleReplicas(t *testing.T) {
	in := healthy()
	n := node("n1", "fa", h100, 8)
	in.with(n)
	for i, id := range []string{"r-1", "r-2", "r-3", "r-4", "r-5"} {
		in.Replicas = append(in.Replicas, replica(id, "m", n, i, 1))
	}
	in.Replicas[4].State = fleet.Starting
	hour := Idle{Quiet: time.Hour, QuietKnown: true, AsOf: time.Second, AsOfKnown: true}
	used := hour
	used.Idle, used.IdleKnown, used.Quiet = 3*time.Hour, true, 2*time.Hour
	in.Idle = map[string]Idle{
		"r-1": hour,
		"r-2": used,
		"r-3": {Quiet: 9 * time.Minute, QuietKnown: true},
		"r-4": {Idle: 9 * time.Hour, IdleKnown: true, Quiet: 9 * time.Hour}, // its door is silent: no verdict
		"r-5": hour,
	}
	want := []wire.IdleRow{
		{ID: "r-2", Model: "m", IdleSeconds: 10800, QuietSeconds: 7200, AsOfSeconds: 1, GPUs: 1},
		{ID: "r-1", Model: "m", IdleSeconds: -1, QuietSeconds: 3600, AsOfSeconds: 1, GPUs: 1},
	}
	if got := Summarize(in).IdleReplicas; !slices.Equal(got, want) {
		t.Errorf("got %+v\nwant %+v", got, want)
	}
}

func TestSilence(t *testing.T) {
	in := healthy()
	in.with(node("n1", "fa", h100, 1), node("n2", "fa", h100, 1), node("n3", "fa", h100, 1))
	in.Heartbeats["n2"] = 6 * time.Second
	delete(in.Heartbeats, "n3")
	in.Routers = []Router{{Report: wire.Report{Router: "b"}, Age: time.Minute}, {Report: wire.Report{Router: "a"}, Age: 2 * time.Second}}
	if got := Summarize(in).Silent; !slices.Equal(got.Agents, []string{"n2", "n3"}) || !slices.Equal(got.Routers, []string{"b"}) {
		t.Errorf("silent: %+v", got)
	}
	in.Listening = time.Second
	if got := Summarize(in).Silent; !slices.Equal(got.Agents, []string{"n2"}) {
		t.Errorf("an observer that has just begun to listen calls %v silent", got.Agents)
	}
}

func TestExitCodes(t *testing.T) {
	brake := "7 of 12 nodes went silent"
	for name, c := range map[string]struct {
		change func(*Input)
		code   int
		says   string
	}{
		"all well":          {func(*Input) {}, 0, ""},
		"frozen on purpose": {func(in *Input) { in.Frozen = &fleet.Freeze{Reason: "move"} }, 0, ""},
		"not placed":        {func(in *Input) { in.Refusals = []Refused{{fleet.Refusal{Model: "m", Short: 1}, 0}}; in.Replicas = nil }, 2, ""},
		"no leader":         {func(in *Input) { in.Leader = "" }, 3, "no leader"},
		"behind":            {func(in *Input) { in.CaughtUp = false }, 3, "not caught up"},
		"brake":             {func(in *Input) { in.Brake = &brake }, 3, brake},
		"unreachable node": {func(in *Input) {
			in.Nodes[0].Unreachable, in.Nodes[0].UnreachableReason = true, "no heartbeat for 30s"
		}, 3, "node n1 is unreachable (no heartbeat for 30s)"},
		"silent agent":  {func(in *Input) { in.Heartbeats["n1"] = time.Minute }, 3, "its agent is silent"},
		"silent router": {func(in *Input) { in.Routers = []Router{{Report: wire.Report{Router: "r1"}, Age: time.Minute}} }, 3, "router r1"},
		"unhealthy card": {func(in *Input) {
			in.Nodes[0].Inventory.GPUs[3].Health, in.Nodes[0].Inventory.GPUs[3].Reason = fleet.Unhealthy, "xid 94"
		}, 3, "1 GPU not healthy (xid 94)"},
		"failed replica":   {func(in *Input) { in.Replicas[0].State, in.Replicas[0].Reason = fleet.Failed, "bad weights" }, 3, "bad weights"},
		"stuck replica":    {func(in *Input) { in.Replicas[0].Marks = []string{"stuck"} }, 3, "stuck"},
		"unmanaged engine": {func(in *Input) { in.Nodes[0].Unmanaged = []fleet.Unmanaged{{What: "shim 7", GPUs: []string{"x"}}} }, 3, "shim 7 is unmanaged and holds 1 GPU"},
		"drain that ran out": {func(in *Input) {
			in.Nodes[0].Admin, in.Nodes[0].Drain = fleet.Cordoned, &fleet.NodeDrain{State: "timed_out"}
		}, 3, "timed out with 1 replica left"},
	} {
		t.Run(name, func(t *testing.T) {
			in := healthy()
			n := node("n1", "fa", h100, 8)
			in.with(n)
			in.Models = []*fleet.Model{model("m", 1)}
			in.Replicas = []*fleet.Replica{replica("r-1", "m", n, 0, 1)}
			c.change(&in)
			s := Summarize(in)
			if got := ExitCode(s); got != c.code || c.code == 3 && !strings.Contains(strings.Join(s.Attention, "\n"), c.says) || c.code != 3 && len(s.Attention) > 0 {
				t.Errorf("exit %d, want %d; attention %q", got, c.code, s.Attention)
			}
		})
	}
}

// The document of an empty fleet has lists, not nulls, and no time that does not exist.
func TestEmptyFleetAsJSON(t *testing.T) {
	data, err := json.Marshal(Summarize(healthy()))
	if err != nil {
		t.Fatal(err)
	}
	const want = `{"cluster":"c","peer":"","leader":"peer-1","index":"0.0","knowledge_age_ms":0,"observed_age_ms":0,"caught_up":true,"frozen":null,"brake":null,` +
		`"nodes":{"total":0,"ready":0,"cordoned":0,"draining":0,"unreachable":0},"gpus":[],"fabrics":[],` +
		`"replicas":{"ready":0,"starting":0,"draining":0,"failed":0},"models":{"total":0,"satisfied":0,"short":0},` +
		`"unplaceable":[],"idle_replicas":[],"silent":{"agents":[],"routers":[]},"backup":null,"attention":[]}`
	if string(data) != want {
		t.Errorf("got  %s\nwant %s", data, want)
	}
}

func TestListsShowNoKeyAndNoInventedAge(t *testing.T) {
	in := healthy()
	n := node("n1", "fa", h100, 8)
	n.Unreachable = true
	in.with(n)
	delete(in.Heartbeats, "n1")
	r := replica("r-1", "m", n, 0, 8)
	r.Door, r.StateAt = &fleet.Door{Address: "192.0.2.7:20000", Key: "secret"}, in.Now+5000
	in.Replicas = []*fleet.Replica{r}
	in.Discovered = []Discovered{{Name: "n1", Reason: "registered already"}, {Name: "n9", Address: "192.0.2.9:7310", Reason: "not registered yet"}}

	reps := Replicas(in)
	if data, _ := json.Marshal(reps); strings.Contains(string(data), "secret") || r.Door.Key != "secret" {
		t.Errorf("the key is shown, or was taken from the table: %s", data)
	}
	if v := reps[0]; !v.Lost || v.AgeSeconds != 0 || v.IdleSeconds != -1 || v.QuietSeconds != -1 || v.AsOfSeconds != -1 || v.InFlight != -1 {
		t.Errorf("replica %+v", v)
	}
	nodes := Nodes(in)
	if len(nodes) != 2 || nodes[0].HeartbeatSeconds != -1 || nodes[0].State != "unreachable" || nodes[0].Replicas != 1 || nodes[0].GPUsFree != 0 {
		t.Errorf("nodes %+v", nodes)
	}
	if v := nodes[1]; v.Name != "n9" || v.State != "discovered" || v.Reason != "not registered yet" {
		t.Errorf("discovered %+v", v)
	}
}

func TestRoutersShowTheirOwnWord(t *testing.T) {
	in := healthy()
	in.Routers = []Router{{Report: wire.Report{Router: "a", Boot: 3, Uses: map[string]wire.Use{"r-1": {InFlight: 2}, "r-2": {Age: 4, InFlight: 1}}}, Age: time.Second}, {Report: wire.Report{Router: "b"}, Age: time.Minute}}
	got := Routers(in)
	if got[0].InFlight != 3 || got[0].State != "reporting" || got[0].Boot != 3 || got[1].State != "silent" || len(got[1].Uses) != 0 {
		t.Errorf("routers %+v", got)
	}
	if l := Ledger(in); len(l.Replicas) != 0 || !slices.Equal(l.SilentRouters, []string{"b"}) {
		t.Errorf("ledger %+v", l)
	}
}
