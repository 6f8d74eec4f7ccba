package board

import (
	"log/slog"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"berth/fleet"
	"berth/fleet/wire"
	"berth/fsm"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// bench is a board over a real state machine; its clock is the bubble's.
type bench struct {
	*Board
	t       *testing.T
	machine *fsm.Machine
	index   uint64
}

func newBench(t *testing.T, peer string, nodes ...string) *bench {
	b := &bench{t: t, machine: fsm.New()}
	start := time.Now().Add(-time.Hour)
	b.Board = New(Config{Peer: peer, State: b.machine.State, Clock: func() time.Duration { return time.Since(start) }, Log: slog.New(slog.DiscardHandler)})
	b.apply(fsm.ClusterCreate{ID: "c1"})
	b.apply(fsm.ServerAnnounce{Server: fleet.Server{ID: "peer-2", HTTP: "192.0.2.2:7300", Raft: "192.0.2.2:7301", MaxLevel: fsm.Level}})
	for _, n := range nodes {
		b.register(n, 1)
	}
	return b
}

func (b *bench) register(node string, instance uint64) {
	b.apply(fsm.NodeRegister{Registration: wire.Registration{
		Version: wire.Version, Name: node, ID: "id-" + node, Instance: instance, Address: "192.0.2.17:7310", EngineAddress: "192.0.2.17", Level: 1,
	}})
}

func (b *bench) apply(c fsm.Command) fsm.Outcome {
	b.t.Helper()
	data, err := fsm.Encode(fsm.Meta{At: fleet.TimeOf(time.Now()), By: "test"}, c)
	if err != nil {
		b.t.Fatal(err)
	}
	b.index++
	out, err := b.machine.Apply(b.index, data)
	if err != nil {
		b.t.Fatal(err)
	}
	if out.Err != nil {
		b.t.Fatalf("%s: %v", c.Kind(), out.Err)
	}
	return out
}

func beat(node string, instance, seq uint64) wire.Heartbeat {
	return wire.Heartbeat{Version: wire.Version, Node: node, ID: "id-" + node, Instance: instance, Seq: seq}
}

func TestFollowerHandsOutTheLeadersStampForFiveSeconds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, "peer-2", "n1")
		if a := b.Heartbeat(beat("n1", 1, 1)); a.Stamp != nil || a.Register || a.Cluster != "c1" {
			t.Fatalf("before any leader: %+v", a)
		}
		b.Delivered(wire.RelayAnswer{Stamp: wire.Stamp{Leader: "peer-1", Term: 3, Clock: 77}, Interval: fleet.Duration(time.Second)}, 0)
		time.Sleep(5 * time.Second)
		a := b.Heartbeat(beat("n1", 1, 2))
		if a.Stamp == nil || *a.Stamp != (wire.Stamp{Leader: "peer-1", Term: 3, Clock: 77}) {
			t.Fatalf("5 s after the stamp: %+v", a.Stamp)
		}
		if !slices.Equal(a.PeerHTTP, []string{"192.0.2.2:7300"}) {
			t.Errorf("peers: %v", a.PeerHTTP)
		}
		time.Sleep(time.Millisecond)
		if a := b.Heartbeat(beat("n1", 1, 3)); a.Stamp != nil {
			t.Fatalf("more than 5 s after the stamp it is still handed out: %+v", a.Stamp)
		}
		b.Delivered(wire.RelayAnswer{Stamp: wire.Stamp{Leader: "peer-3", Term: 2, Clock: 99}}, 0)
		if a := b.Heartbeat(beat("n1", 1, 4)); a.Stamp != nil {
			t.Fatalf("a stamp of an older term was taken: %+v", a.Stamp)
		}
	})
}

func TestFollowerPassesTheNewestHeartbeatOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, "peer-2", "n1", "n2")
		b.Heartbeat(beat("n1", 1, 5))
		b.Heartbeat(beat("n1", 1, 4)) // late
		b.Heartbeat(beat("n9", 1, 1)) // of no registered node
		time.Sleep(300 * time.Millisecond)
		r := b.Outgoing(map[string]uint64{"n1": 1})
		if len(r.Heartbeats) != 1 || r.Heartbeats[0].Heartbeat.Seq != 5 || r.Heartbeats[0].HeldSeconds != 0.3 {
			t.Fatalf("outgoing: %+v", r.Heartbeats)
		}
		if again := b.Outgoing(nil); len(again.Heartbeats) != 0 {
			t.Fatalf("passed twice: %+v", again.Heartbeats)
		}
		time.Sleep(200 * time.Millisecond)
		b.Undelivered(r, 200*time.Millisecond)
		if again := b.Outgoing(nil); len(again.Heartbeats) != 1 || again.Heartbeats[0].HeldSeconds != 0.5 {
			t.Fatalf("after a relay that failed: %+v", again.Heartbeats)
		}
	})
}

func TestOnlyTheRegisteredInstanceIsASignOfLife(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, "peer-1", "n1")
		b.register("n1", 2)
		term, end := b.Lead(7)
		defer end()
		if a := b.Heartbeat(beat("n1", 1, 9)); !a.Register {
			t.Error("the life before was not told to register")
		}
		clone := beat("n1", 2, 9)
		clone.ID = "another machine"
		if a := b.Heartbeat(clone); !a.Register {
			t.Error("a copy was not told to register")
		}
		if w := term.Witnesses(b.Clock(), nil); len(w.Heard) != 0 {
			t.Fatalf("heard: %+v", w.Heard)
		}
		if a := b.Heartbeat(beat("n1", 2, 1)); a.Register || a.Stamp == nil || a.Stamp.Term != 7 {
			t.Fatalf("the registered one: %+v", a)
		}
		if w := term.Witnesses(b.Clock(), nil); w.Heard["n1"].Instance != 2 {
			t.Fatalf("heard: %+v", w.Heard)
		}
	})
}

func TestRelayedHeartbeatCountsFromWhenThePeerHadIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, "peer-1", "n1")
		term, end := b.Lead(7)
		defer end()
		relay := wire.Relay{Peer: "peer-2", Heartbeats: []wire.Held{{HeldSeconds: 12, Heartbeat: beat("n1", 1, 3)}}, Alive: map[string]uint64{"n1": 1}}
		answer, err := b.Relay(relay)
		if err != nil {
			t.Fatal(err)
		}
		if answer.Observed == nil || answer.Observed.Nodes["n1"] != 12 || answer.Stamp.Leader != "peer-1" {
			t.Fatalf("answer: %+v", answer)
		}
		w := term.Witnesses(b.Clock(), nil)
		if !w.Peers["peer-2"] || w.Alive["n1"] != 1 {
			t.Fatalf("witnesses: %+v", w)
		}
		time.Sleep(3*time.Second + 1)
		if w := term.Witnesses(b.Clock(), nil); w.Peers["peer-2"] || len(w.Alive) != 0 {
			t.Fatalf("a silent peer is still a witness: %+v", w)
		}
	})
}

func TestFollowerShowsTheLeadersWordWithItsAge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, "peer-2")
		if o := b.Observed(); o.AgeSeconds != -1 {
			t.Fatalf("before any leader: %+v", o)
		}
		b.Delivered(wire.RelayAnswer{Stamp: wire.Stamp{Term: 1}, Observed: &wire.Observed{Leader: "peer-1", Term: 1}}, 0)
		time.Sleep(2 * time.Second)
		if o := b.Observed(); o.AgeSeconds != 2 || o.Leader != "peer-1" {
			t.Fatalf("after 2 s: %+v", o)
		}
		b.Delivered(wire.RelayAnswer{Stamp: wire.Stamp{Term: 1}, Observed: &wire.Observed{Leader: "peer-1", Term: 1}}, 1500*time.Millisecond)
		if o := b.Observed(); o.AgeSeconds != 1.5 {
			t.Fatalf("the leader may have said it 1.5 s ago: %+v", o)
		}
	})
}

func TestATermBeginsEmptyAndEndsWithItsLeader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, "peer-1", "n1")
		_, end := b.Lead(1)
		b.Heartbeat(beat("n1", 1, 1))
		if _, err := b.Report(wire.Report{Router: "r1", Boot: 1, Seq: 1}); err != nil {
			t.Fatal(err)
		}
		end()
		if _, err := b.Report(wire.Report{Router: "r1", Boot: 1, Seq: 2}); fleet.CodeOf(err) != fleet.NoLeader {
			t.Fatalf("a report after the term: %v", err)
		}
		_, end = b.Lead(2)
		defer end()
		if o := b.Observed(); len(o.Nodes) != 0 || len(o.Routers) != 0 || len(o.Silent.Agents) != 0 {
			t.Fatalf("a new term knows of the old one: %+v", o)
		}
		time.Sleep(stampFor + 1)
		if o := b.Observed(); !slices.Equal(o.Silent.Agents, []string{"n1"}) {
			t.Fatalf("silent after %s: %v", stampFor, o.Silent.Agents)
		}
		a, err := b.Report(wire.Report{Router: "r1", Boot: 1, Seq: 3})
		if err != nil || !a.SendAll || a.Term != 2 {
			t.Fatalf("the first report of a term: %+v, %v", a, err)
		}
	})
}

func TestRefusalsKeepSinceWhen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, "peer-1")
		term, end := b.Lead(1)
		defer end()
		term.SetRefusals(b.Clock(), []fleet.Refusal{{Model: "a", Reason: "no room"}})
		time.Sleep(10 * time.Second)
		term.SetRefusals(b.Clock(), []fleet.Refusal{{Model: "a", Reason: "still none"}, {Model: "b"}})
		o := b.Observed()
		if len(o.Refusals) != 2 || o.Refusals[0].SinceSeconds != 10 || o.Refusals[0].Reason != "still none" || o.Refusals[1].SinceSeconds != 0 {
			t.Fatalf("refusals: %+v", o.Refusals)
		}
	})
}

func TestDemandWakesThePlanner(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, "peer-1")
		term, end := b.Lead(1)
		defer end()
		report := wire.Report{Router: "r1", Boot: 1, Seq: 1}
		for range 3 {
			report.Seq++
			report.Demand = map[string]wire.Demand{"m": {Waiting: 2, Oldest: 1}}
			if _, err := b.Report(report); err != nil {
				t.Fatal(err)
			}
		}
		<-term.Demanded()
		select {
		case <-term.Demanded():
			t.Error("three reports woke more than once")
		default:
		}
	})
}

func TestRingKeepsTheNewestAndWakes(t *testing.T) {
	r := newRing(3)
	_, more := r.since(0)
	for range 5 {
		r.add(wire.Event{})
	}
	<-more
	seqs := func(since uint64) (out []uint64) {
		events, _ := r.since(since)
		for _, e := range events {
			out = append(out, e.Seq)
		}
		return out
	}
	for since, want := range map[uint64][]uint64{0: {3, 4, 5}, 3: {4, 5}, 4: {5}, 5: nil, 9: nil} {
		if got := seqs(since); !slices.Equal(got, want) {
			t.Errorf("since %d: %v, want %v", since, got, want)
		}
	}
}
