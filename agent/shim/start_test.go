package shim_test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"berth/agent/shim"
	"berth/fleet"
)

func always(s script) func(int) script { return func(int) script { return s } }

func limits(timeout time.Duration, restarts int) func(*shim.Launch) {
	return func(l *shim.Launch) {
		l.Order.Spec.Start = fleet.StartSpec{Timeout: fleet.Duration(timeout), MaxRestarts: restarts}
	}
}

func TestReadyAfterOneRealToken(t *testing.T) {
	for name, s := range map[string]script{
		"refuses while loading": {load: 2 * time.Second},
		"503 while loading":     {load: 2 * time.Second, early: true},
		"token later":           {load: time.Second, noToken: time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, always(s), nil, func(g *rig) {
				if got := g.post(0); got != "starting" {
					t.Errorf("a request before the engine serves was %q", got)
				}
				st, at := g.phase(shim.Ready)
				if at < 2*time.Second || at > 3*time.Second {
					t.Errorf("ready after %v, want 2 s to 3 s", at)
				}
				if st.Engine != 1 || st.Restarts != 0 || st.Door == nil || len(st.Door.Key) != 64 {
					t.Errorf("status %+v", st)
				}
				if got := g.post(0); got != "whole" {
					t.Errorf("a request after it was %q", got)
				}
				if r := g.reading(); r.Admissions != 1 || r.InFlight != 0 || r.UseAge == nil || r.ReadyAge == nil {
					t.Errorf("the probe was counted, or the request was not: %+v", r)
				}
			})
		})
	}
}

// C48: loading is judged by progress with a generous limit.
func TestLongLoad(t *testing.T) {
	t.Run("progress extends the limit", func(t *testing.T) {
		s := script{load: 25 * time.Minute, mutters: 30 * time.Second}
		inBubble(t, always(s), limits(10*time.Minute, 3), func(g *rig) {
			time.Sleep(14*time.Minute + 2*time.Second)
			synctest.Wait()
			if st, _ := g.h.Status(g.t.Context(), 0); st.StartingAge == nil || *st.StartingAge != 842 {
				t.Errorf("while loading: %+v", st)
			}
			if _, at := g.phase(shim.Ready); at < 25*time.Minute || at > 25*time.Minute+time.Second {
				t.Errorf("ready after %v", at)
			}
			if n := len(g.startTimes()); n != 1 {
				t.Errorf("%d starts", n)
			}
		})
	})
	t.Run("no progress", func(t *testing.T) {
		inBubble(t, always(script{load: time.Hour}), limits(5*time.Minute, 3), func(g *rig) {
			st, at := g.until("a restart", func(s shim.Status) bool { return s.Restarts == 1 })
			if at != 5*time.Minute || st.Reason != "load limit: not ready after 5m" || st.Exit.Signal != "SIGKILL" {
				t.Errorf("after %v: %+v, exit %+v", at, st, st.Exit)
			}
			g.until("the next start", func(s shim.Status) bool { return s.Engine == 2 })
			if got := g.startTimes(); len(got) != 2 || got[1] != 5*time.Minute+time.Second {
				t.Errorf("starts at %v", got)
			}
		})
	})
	t.Run("mutters for ever", func(t *testing.T) {
		s := script{load: 100 * time.Hour, mutters: time.Second}
		inBubble(t, always(s), limits(5*time.Minute, 0), func(g *rig) {
			if st, at := g.phase(shim.Failed); at < 20*time.Minute || at > 22*time.Minute {
				t.Errorf("failed after %v: %+v", at, st)
			}
		})
	})
}

// C49: restarts wait longer each time, are counted, and end.
func TestCrashLoop(t *testing.T) {
	s := script{load: time.Minute, dieAfter: 200 * time.Millisecond, code: 1}
	inBubble(t, always(s), limits(time.Minute, 7), func(g *rig) {
		st, _ := g.until("failed, never ready", func(s shim.Status) bool {
			if s.Phase == shim.Ready {
				t.Fatal("it was ready")
			}
			return s.Phase == shim.Failed
		})
		if st.Restarts != 7 || st.Exit == nil || st.Exit.Code != 1 || !strings.Contains(strings.Join(st.Exit.Log, "\n"), "cannot load the weights") {
			t.Errorf("status %+v, exit %+v", st, st.Exit)
		}
		starts := g.startTimes()
		want := []time.Duration{1, 2, 4, 8, 16, 32, 60}
		if len(starts) != len(want)+1 {
			t.Fatalf("starts at %v", starts)
		}
		for i, w := range want {
			if got := starts[i+1] - starts[i] - s.dieAfter; got != w*time.Second {
				t.Errorf("restart %d waited %v, want %v", i+1, got, w*time.Second)
			}
		}
		if got := g.post(0); got != "shut" {
			t.Errorf("a request was %q", got)
		}
	})
}

func TestHealthyRunResetsTheCount(t *testing.T) {
	inBubble(t, func(n int) script {
		if n == 3 {
			return script{dieAfter: 10*time.Minute + time.Second, code: 3}
		}
		return script{load: time.Second, dieAfter: 500 * time.Millisecond, code: 1}
	}, limits(time.Minute, 3), func(g *rig) {
		g.until("a long run", func(s shim.Status) bool { return s.Engine == 3 && s.Phase == shim.Ready })
		g.until("the count to be forgotten", func(s shim.Status) bool { return s.Engine == 3 && s.Restarts == 0 })
		st, _ := g.until("its end", func(s shim.Status) bool { return s.Engine == 4 })
		if st.Restarts != 1 || st.Exit.Code != 3 {
			t.Errorf("after a long run: %+v, exit %+v", st, st.Exit)
		}
		starts := g.startTimes()
		if got := starts[3] - starts[2]; got != 10*time.Minute+time.Second {
			t.Errorf("its restart waited: %v after its start", got)
		}
	})
}

func TestUseIsRememberedAcrossEngines(t *testing.T) {
	inBubble(t, func(n int) script {
		if n == 1 {
			return script{dieAfter: time.Minute, code: 1}
		}
		return script{}
	}, nil, func(g *rig) {
		g.phase(shim.Ready)
		g.post(0)
		before := g.reading()
		g.until("the next engine", func(s shim.Status) bool { return s.Engine == 2 && s.Phase == shim.Ready })
		after := g.reading()
		if after.Admissions != before.Admissions || after.Engine != 2 || *after.UseAge < 60 || *after.ReadyAge > 1 || after.Number != before.Number+1 {
			t.Errorf("before %+v, after %+v", before, after)
		}
	})
}

func TestHangIsSeenByTokens(t *testing.T) {
	stopped := false
	inBubble(t, func(n int) script {
		if n == 1 {
			return script{stopped: &stopped}
		}
		return script{load: time.Minute} // the reason is said for as long as it loads
	}, func(l *shim.Launch) { l.Recipe.Progress = []string{"vllm:generation_tokens_total"} }, func(g *rig) {
		g.phase(shim.Ready)
		time.Sleep(time.Hour) // nothing in flight is not hanging
		if got := g.post(1200); got != "whole" {
			t.Fatalf("twenty minutes of tokens: %q", got)
		}
		stopped = true
		if got := g.post(2); got != "cut" && got != "no answer" {
			t.Errorf("the hanging request was %q", got)
		}
		st, _ := g.until("a restart", func(s shim.Status) bool { return s.Engine == 2 })
		if !strings.Contains(st.Reason, "hanging") {
			t.Errorf("reason %q", st.Reason)
		}
	})
}

func TestEngineKeyIsMadeAndSent(t *testing.T) {
	inBubble(t, always(script{}), func(l *shim.Launch) { l.Program.Args = []string{"engine", shim.PlaceAPIKey} }, func(g *rig) {
		g.phase(shim.Ready)
		g.post(0)
		g.mu.Lock()
		defer g.mu.Unlock()
		for _, r := range g.seen {
			if key := r.Header.Get("Authorization"); len(key) != len("Bearer ")+64 {
				t.Errorf("the engine was not shown its key: %q", key)
			}
		}
	})
}
