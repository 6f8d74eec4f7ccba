package sim

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func rank(n, of int) Config {
	return Config{NNodes: of, NodeRank: n, Headless: n > 0, LoadTime: time.Minute}
}

func isReady(r *running) bool {
	select {
	case <-r.Ready():
		return true
	default:
		return false
	}
}

func TestGroupWaitsForEveryRank(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNet()
		second := start(t, n, rank(2, 3)) // before there is a master
		time.Sleep(10 * time.Second)
		head := start(t, n, rank(0, 3))
		time.Sleep(5 * time.Minute)
		if isReady(head) || isReady(second) {
			t.Fatal("ready without rank 1")
		}
		start(t, n, rank(1, 3))
		synctest.Wait()
		time.Sleep(time.Minute - time.Millisecond)
		if isReady(head) {
			t.Fatal("ready before the load time")
		}
		<-head.Ready()
		<-second.Ready()
		if status, body := head.call("POST", "/v1/completions", completion("a", 1)); status != 200 {
			t.Errorf("%d %s", status, body)
		}
		if second.Addr() != nil {
			t.Errorf("a headless rank listens on %v", second.Addr())
		}
	})
}

func TestIncompleteGroupGivesUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNet()
		began := time.Now()
		head, other := start(t, n, rank(0, 3)), start(t, n, rank(1, 3))
		head.wantExit(1)
		other.wantExit(1)
		if got := time.Since(began); got != 10*time.Minute {
			t.Errorf("gave up after %v, want 10m", got)
		}
	})
}

func TestLostRankEndsRankZero(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNet()
		head, one, two := start(t, n, rank(0, 3)), start(t, n, rank(1, 3)), start(t, n, rank(2, 3))
		<-head.Ready()
		one.kill()
		one.exit()
		head.wantExit(1)
		if !strings.Contains(head.err.Error(), "rank 1 is lost") {
			t.Errorf("rank 0 ended with %v", head.err)
		}
		time.Sleep(time.Hour)
		select {
		case <-two.done:
			t.Fatalf("rank 2 did not survive: %v", two.err)
		default:
		}
		two.Terminate()
		if err := two.exit(); err != nil {
			t.Errorf("SIGTERM to the survivor: %v", err)
		}
	})
}

func TestExitOnMasterLoss(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNet()
		cfg := rank(1, 2)
		cfg.Fault.ExitOnMasterLoss = true
		head, one := start(t, n, rank(0, 2)), start(t, n, cfg)
		<-head.Ready()
		head.Terminate()
		if err := head.exit(); err != nil {
			t.Errorf("SIGTERM to rank 0: %v", err)
		}
		one.wantExit(1)
	})
}

func TestRankCrashes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNet()
		cfg := rank(1, 2)
		cfg.Fault = Fault{CrashAfter: Duration(time.Minute), CrashCode: 9}
		head, one := start(t, n, rank(0, 2)), start(t, n, cfg)
		one.wantExit(9)
		head.wantExit(1)
	})
}

func TestWrongRanksAreRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNet()
		head := start(t, n, rank(0, 3))
		synctest.Wait()
		start(t, n, rank(1, 3))
		synctest.Wait()
		again := start(t, n, rank(1, 3))
		again.wantExit(1)
		wide := start(t, n, rank(3, 4))
		wide.wantExit(1)
		for err, want := range map[error]string{again.err: "rank 1 is here already", wide.err: "over 4 nodes"} {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("refused with %v, want %q", err, want)
			}
		}
		c, err := n.Dial(t.Context(), "127.0.0.1:29501") // a port scanner, silent
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		start(t, n, rank(2, 3))
		<-head.Ready()
	})
}

func TestConfigListsAllProblems(t *testing.T) {
	err := Config{NNodes: 2, NodeRank: 2, MaxNumSeqs: -1, Loading: "lazy", Fault: Fault{Gzip: "zstd"}}.Validate()
	for _, want := range []string{"no model", "node rank 2", "headless", "max num seqs", `loading "lazy"`, `gzip is "zstd"`} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v\ndoes not say %q", err, want)
		}
	}
	if _, err := New(Config{}); err == nil {
		t.Error("New took a Config without a model")
	}
}
