package router

import (
	"context"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"berth/fleet/wire"
)

func TestReportSaysOnlyWhatChanged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, nil)
		c.set(model("m", c.engine("a", "10.0.0.1", ok("a"))), model("n", c.engine("b", "10.0.0.2", sse(5, time.Second))))
		time.Sleep(3 * time.Second)
		r := c.peers.last(t)
		if len(r.Uses) != 0 || r.All || r.Router != "r1" || r.Boot != 1 || r.Version != wire.Version || r.Table.N != 1 || r.Address != clientsAt || r.Admin != opsAt {
			t.Errorf("%+v", r)
		}
		c.post(chatPath, chatBody)
		time.Sleep(time.Second)
		if r = c.peers.last(t); len(r.Uses) != 1 || r.Uses["a"].InFlight != 0 || r.Uses["a"].Age > 1 || r.Uses["a"].Age < 0 {
			t.Errorf("used: %+v", r)
		}
		time.Sleep(time.Second)
		if r = c.peers.last(t); len(r.Uses) != 0 {
			t.Errorf("unchanged: %+v", r)
		}
		go func() { c.post(chatPath, `{"model":"n","stream":true}`) }()
		for range 4 {
			time.Sleep(time.Second)
			if r = c.peers.last(t); len(r.Uses) != 1 || r.Uses["b"] != (wire.Use{InFlight: 1}) {
				t.Errorf("in flight: %+v", r)
			}
		}
		time.Sleep(3 * time.Second)
		c.peers.change(func() { c.peers.term = 2 })
		time.Sleep(2 * time.Second)
		if r = c.peers.last(t); !r.All || len(r.Uses) != 2 || r.Uses["a"].Age < 10 {
			t.Errorf("a new leader: %+v", r)
		}
		time.Sleep(time.Second)
		if r = c.peers.last(t); r.All || len(r.Uses) != 0 {
			t.Errorf("the new leader has it: %+v", r)
		}
		c.peers.change(func() { c.peers.sendAll = true })
		time.Sleep(2 * time.Second)
		if r = c.peers.last(t); !r.All || len(r.Uses) != 2 {
			t.Errorf("asked for all: %+v", r)
		}
	})
}

func TestLostReportsAreMadeUpFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, nil)
		c.set(model("m", c.engine("a", "10.0.0.1", ok("a"))))
		time.Sleep(2 * time.Second)
		c.peers.change(func() { c.peers.silent = true })
		c.post(chatPath, chatBody)
		c.set(model("n"))
		time.Sleep(10 * time.Second)
		c.peers.change(func() { c.peers.silent = false })
		time.Sleep(time.Second)
		if r := c.peers.last(t); r.Uses["a"].Age < 9 {
			t.Errorf("the use of a replica that has left meanwhile: %+v", r)
		}
		time.Sleep(2 * time.Second)
		if _, known := c.router.IdleFor("a"); known {
			t.Error("a replica that is gone and reported is still kept")
		}
	})
}

// TestRestartLeavesUnservedAbsent: a restarted router has no entry, and no age, for what it has not served.
func TestRestartLeavesUnservedAbsent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, nil)
		c.set(model("m", c.engine("a", "10.0.0.1", ok("a"))), model("n", c.engine("b", "10.0.0.2", ok("b"))))
		c.post(chatPath, chatBody)
		c.post(chatPath, `{"model":"n"}`)
		c.end()
		c.start()
		c.post(chatPath, `{"model":"n"}`)
		time.Sleep(1500 * time.Millisecond)
		r := c.peers.last(t)
		if _, there := r.Uses["a"]; there || len(r.Uses) != 1 || r.Boot != 2 || !r.All {
			t.Errorf("%+v", r)
		}
		if d, known := c.router.IdleFor("a"); known {
			t.Errorf("idle for %v, want unknown", d)
		}
		if _, known := c.router.IdleFor("b"); !known {
			t.Error("b is unknown but was served")
		}
		a := c.get("http://" + opsAt + "/report")
		if strings.Contains(a.body, `"a"`) || !strings.Contains(a.body, `"b":{"age_seconds":`) || strings.Contains(a.body, "0001-") {
			t.Errorf("%s", a.body)
		}
	})
}

// TestAcknowledgementsOfATerm drives the reporter by hand through answers that are late, foreign or reordered.
func TestAcknowledgementsOfATerm(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, nil)
		c.end()
		r := c.router.reporter
		r.mu.Lock()
		defer r.mu.Unlock()
		r.needAll, r.whole, r.term, r.acked = true, 0, 0, 0
		step := func(name string, a wire.ReportAnswer, wantAll bool) {
			t.Helper()
			time.Sleep(time.Second)
			if r.learn(a); r.needAll != wantAll {
				t.Errorf("%s: all %v, want %v", name, r.needAll, wantAll)
			}
		}
		first := r.next().Seq
		step("the first answer of a leader that has everything", wire.ReportAnswer{Term: 5, Ack: first}, false)
		acked := r.acked
		second := r.next().Seq
		step("a late answer of an older term", wire.ReportAnswer{Term: 4, Ack: second, SendAll: true}, false)
		step("a number that was never sent", wire.ReportAnswer{Term: 5, Ack: second + 64}, false)
		if r.acked != acked {
			t.Error("it moved the acknowledged time")
		}
		step("a new leader that has only the newest", wire.ReportAnswer{Term: 6, Ack: second}, true)
		third := r.next()
		if !third.All {
			t.Error("a new leader did not get everything")
		}
		step("it repeats the old number", wire.ReportAnswer{Term: 6, Ack: second}, true)
		step("it has everything", wire.ReportAnswer{Term: 6, Ack: third.Seq}, false)
		if r.acked <= acked {
			t.Error("the acknowledged time did not move")
		}
		step("it asks for all", wire.ReportAnswer{Term: 6, Ack: third.Seq, SendAll: true}, true)
	})
}

// TestStop: SIGTERM lets streams finish, sends waiting requests away, refuses new ones and reports a last time.
func TestStop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, nil)
		c.set(model("m", c.engine("a", "10.0.0.1", sse(10, time.Second))), model("cold"))
		var wg sync.WaitGroup
		wg.Go(func() {
			if a := c.post(chatPath, chatBody); !strings.HasSuffix(a.body, "[DONE]\n\n") || a.err != nil {
				t.Errorf("the stream was cut: %q %v", a.body, a.err)
			}
		})
		wg.Go(func() {
			if a := c.post(chatPath, `{"model":"cold"}`); a.status != 503 || a.header.Get("Retry-After") == "" {
				t.Errorf("waiting: %d %s", a.status, a.body)
			}
		})
		time.Sleep(2500 * time.Millisecond)
		start := time.Now()
		c.stop()
		time.Sleep(time.Second)
		if a := c.get("http://" + opsAt + "/readyz"); a.status != 503 {
			t.Errorf("ready while it stops: %s", a.body)
		}
		if a := c.post(chatPath, chatBody); a.err == nil {
			t.Error("a new connection was taken")
		}
		if u := c.peers.last(t).Uses["a"]; u.InFlight != 1 {
			t.Errorf("reports ended before the stream: %+v", u)
		}
		wg.Wait()
		if err := <-c.ended; err != nil {
			t.Error(err)
		}
		c.ended = nil
		if d := time.Since(start); d < 7*time.Second || d > 9*time.Second {
			t.Errorf("stopped after %v", d)
		}
		if u := c.peers.last(t).Uses["a"]; u.InFlight != 0 || u.Age > 1 {
			t.Errorf("last report: %+v", u)
		}
	})
}

func TestStopCutsWhatDoesNotEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, func(c *Config) { c.Drain = 5 * time.Second })
		c.set(model("m", c.engine("a", "10.0.0.1", sse(100, time.Second))))
		done := make(chan answer)
		go func() { done <- c.post(chatPath, chatBody) }()
		time.Sleep(time.Second)
		start := time.Now()
		c.end()
		if d := time.Since(start); d < 5*time.Second || d > 6*time.Second {
			t.Errorf("stopped after %v", d)
		}
		if a := <-done; a.err == nil {
			t.Error("a cut stream ended as if it were whole")
		}
		if u := c.peers.last(t).Uses["a"]; u.InFlight != 0 {
			t.Errorf("last report: %+v", u)
		}
	})
}

func TestAcquireForOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, nil)
		c.set(model("m", c.engine("a", "10.0.0.1", ok("a"))))
		e, release, err := c.router.Acquire(context.Background(), "m", nil)
		if err != nil || e.Replica != "a" {
			t.Fatalf("%v %v", e, err)
		}
		time.Sleep(time.Second)
		if u := c.peers.last(t).Uses["a"]; u.InFlight != 1 {
			t.Errorf("%+v", u)
		}
		release(0)
		release(0)
		c.settled("a")
	})
}
