package idle_test

import (
	"strings"
	"testing"
	"time"

	"berth/fleet/wire"
	"berth/idle"
)

func TestAnswers(t *testing.T) {
	l := idle.New("peer-1", 4)
	step := func(name string, r wire.Report, want wire.ReportAnswer) {
		t.Helper()
		want.Term = 4
		if got, _ := l.Report(start, r); got != want {
			t.Errorf("%s: answer %+v, want %+v", name, got, want)
		}
	}
	all := report(2, nil)
	all.All = true
	restarted := report(1, nil)
	restarted.Boot = 8
	step("first in this term", report(1, nil), wire.ReportAnswer{Ack: 1, SendAll: true})
	step("everything", all, wire.ReportAnswer{Ack: 2})
	step("delta", report(3, nil), wire.ReportAnswer{Ack: 3})
	step("duplicate", report(3, nil), wire.ReportAnswer{Ack: 3})
	step("re-ordered", report(1, nil), wire.ReportAnswer{Ack: 3})
	step("restarted", restarted, wire.ReportAnswer{Ack: 1, SendAll: true})
	step("from before the restart", report(9, nil), wire.ReportAnswer{})
	step("no id", wire.Report{Seq: 1}, wire.ReportAnswer{})
}

func TestDroppedReportsSayNothing(t *testing.T) {
	l := idle.New("peer-1", 4)
	l.Report(start, report(5, map[string]wire.Use{"r-1.1.1": {Age: 60}}))
	l.Report(start+time.Minute, report(5, map[string]wire.Use{"r-1.1.1": {Age: 60}})) // a copy, a minute late
	l.Report(start+time.Minute, report(4, map[string]wire.Use{"r-1.1.1": {Age: 3, InFlight: 1}}))
	idleFor(t, l, start+time.Minute, 2*time.Minute)
}

func TestCopiedRouterIsNamed(t *testing.T) {
	l := idle.New("peer-1", 4)
	a, b := report(9, nil), report(9, map[string]wire.Use{"r-1.1.1": {}})
	a.Address, b.Address = "192.0.2.10:7380", "192.0.2.11:7380"
	l.Report(start, a)
	answer, problems := l.Report(start, b)
	if answer.Ack != 0 {
		t.Error("what the copy said was dropped and acknowledged")
	}
	if len(problems) != 1 || !strings.Contains(problems[0].What, a.Address) || !strings.Contains(problems[0].What, b.Address) {
		t.Errorf("problems %v, want one that names both", problems)
	}
}

func TestDemand(t *testing.T) {
	l := idle.New("peer-1", 4)
	one, two := report(1, nil), report(1, nil)
	two.Router = "router-2"
	one.Demand = map[string]wire.Demand{"m": {Waiting: 3, Oldest: 10}, "bad": {Waiting: -1}, "worse": {Waiting: 1, Oldest: -4}}
	two.Demand = map[string]wire.Demand{"m": {Waiting: 2, Oldest: 20}, "none": {}}
	_, problems := l.Report(start, one)
	if len(problems) != 2 {
		t.Errorf("problems %v, want 2", problems)
	}
	l.Report(start+2*time.Second, two)
	got := l.Demand(start + 3*time.Second)
	if len(got) != 1 || got["m"] != (wire.Demand{Waiting: 5, Oldest: 21}) {
		t.Errorf("demand %v", got)
	}
	if got := l.Demand(start + 6*time.Second); got["m"] != (wire.Demand{Waiting: 2, Oldest: 24}) {
		t.Errorf("demand %v after the first fell silent", got)
	}
	if got := l.Demand(start + hour); len(got) != 0 {
		t.Errorf("demand %v of silent routers", got)
	}
}

func TestRouters(t *testing.T) {
	l := idle.New("peer-1", 4)
	one, two := report(1, map[string]wire.Use{"r-1.1.1": {Age: 4}}), report(1, nil)
	two.Router = "router-0"
	l.Report(start, one)
	l.Report(start+4*time.Second, two)
	got := l.Routers(start + 6*time.Second)
	if len(got) != 2 || got[0].Last.Router != "router-0" || got[0].Silent || !got[1].Silent || got[1].Unseen != 6*time.Second || len(got[1].Last.Uses) != 1 {
		t.Fatalf("routers %+v", got)
	}
	l.ForgetRouter("router-0")
	three := report(1, nil)
	three.Router = "router-3"
	l.Report(start+48*hour, three)
	if got := l.Routers(start + 48*hour); len(got) != 1 || got[0].Last.Router != "router-3" {
		t.Errorf("routers %+v, want those of two days ago forgotten", got)
	}
	idleFor(t, l, start+48*hour, 48*hour+4*time.Second) // what it told stays
}
