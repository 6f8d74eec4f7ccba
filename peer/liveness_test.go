package peer

import (
	"slices"
	"strings"
	"testing"
	"time"

	"berth/fleet"
	"berth/idle"
	"berth/peer/board"
)

const (
	testGrace = 30 * time.Second
	testTruce = 60 * time.Second
)

// watch is one leader's look at one node, tick by tick.
type watch struct {
	silences *silences
	now      time.Duration
	node     fleet.Node
	quorum   bool
	heard    board.Heard
	alive    map[string]uint64
}

func newWatch() *watch {
	return &watch{silences: newSilences(), now: time.Hour, node: fleet.Node{Name: "n1", Instance: 1}, quorum: true}
}

// tick looks once a tick for so long and gives the first verdict with the time it took.
func (w *watch) tick(d time.Duration) (verdict, time.Duration, bool) {
	for passed := idle.Tick; passed <= d; passed += idle.Tick {
		w.now += idle.Tick
		if v, ok := w.look(); ok {
			return v, passed, true
		}
	}
	return verdict{}, 0, false
}

func (w *watch) look() (verdict, bool) {
	words := board.Witnesses{Heard: map[string]board.Heard{"n1": w.heard}, Alive: w.alive}
	list := w.silences.judge(w.now, words, w.quorum, slices.Values([]*fleet.Node{&w.node}), testGrace, testTruce)
	if len(list) == 0 {
		return verdict{}, false
	}
	return list[0], true
}

// beating ticks with a heartbeat each.
func (w *watch) beating(d time.Duration) bool {
	for passed := time.Duration(0); passed < d; passed += idle.Tick {
		w.now += idle.Tick
		w.heard = board.Heard{Instance: w.node.Instance, At: w.now}
		if _, ok := w.look(); ok {
			return false
		}
	}
	return true
}

func TestSilentNodeIsUnreachableAfterGraceAndNotBefore(t *testing.T) {
	w := newWatch()
	if !w.beating(2 * testTruce) {
		t.Fatal("a node that beats was judged")
	}
	v, after, ok := w.tick(time.Hour)
	if !ok || after != testGrace || v.instance != 1 {
		t.Fatalf("verdict %+v after %s", v, after)
	}
}

func TestLiveGossipSavesASilentNodeForTenGraces(t *testing.T) {
	w := newWatch()
	w.beating(2 * testTruce)
	w.alive = map[string]uint64{"n1": 1}
	v, after, ok := w.tick(time.Hour)
	if !ok || after != hungGraces*testGrace || !strings.Contains(v.reason, "agent hung") {
		t.Fatalf("verdict %+v after %s", v, after)
	}
}

func TestGossipOfAnotherInstanceIsNoWitness(t *testing.T) {
	w := newWatch()
	w.beating(2 * testTruce)
	w.alive = map[string]uint64{"n1": 2}
	if _, after, ok := w.tick(time.Hour); !ok || after != testGrace {
		t.Fatalf("after %s", after)
	}
}

func TestNobodyIsJudgedInTheTruce(t *testing.T) {
	w := newWatch()
	_, after, ok := w.tick(time.Hour)
	if first := testTruce + idle.Tick; !ok || after != first { // the first look only starts the clock
		t.Fatalf("judged after %s, want %s", after, first)
	}
}

func TestTimeWithoutAQuorumDoesNotCount(t *testing.T) {
	w := newWatch()
	w.beating(2 * testTruce)
	w.quorum = false
	if _, _, ok := w.tick(time.Hour); ok {
		t.Fatal("judged while cut off from the peers")
	}
	w.quorum = true
	if _, after, ok := w.tick(time.Hour); !ok || after != testGrace {
		t.Fatalf("after the quorum came back: %s", after)
	}
}

func TestAPauseOfTheLeaderDoesNotCount(t *testing.T) {
	w := newWatch()
	w.beating(2 * testTruce)
	w.now += time.Hour // stopped and continued
	if _, ok := w.look(); ok {
		t.Fatal("judged for the time in which the leader stood still")
	}
	if _, after, ok := w.tick(time.Hour); !ok || after != testGrace-idle.Tick {
		t.Fatalf("after the pause: %s", after)
	}
}

func TestRegisteringAnewBeginsAnew(t *testing.T) {
	w := newWatch()
	w.beating(2 * testTruce)
	w.tick(testGrace - 2*idle.Tick)
	w.node.Instance = 2
	if _, after, ok := w.tick(time.Hour); !ok || after != testGrace+idle.Tick {
		t.Fatalf("after %s", after)
	}
	w.node.Unreachable = true
	if _, _, ok := w.tick(time.Hour); ok {
		t.Fatal("judged twice")
	}
	w.node.Unreachable = false
	if _, after, ok := w.tick(time.Hour); !ok || after != testGrace+idle.Tick {
		t.Fatalf("back, and silent again: after %s", after)
	}
}

func TestHeldHeartbeatEndsASilence(t *testing.T) {
	w := newWatch()
	w.beating(2 * testTruce)
	w.tick(20 * time.Second)
	w.heard = board.Heard{Instance: 1, At: w.now - 10*time.Second} // a peer had it 10 s ago
	if _, after, ok := w.tick(time.Hour); !ok || after != testGrace-10*time.Second {
		t.Fatalf("after %s", after)
	}
}

func TestQuorumCountsVotersThatAreHeard(t *testing.T) {
	three := []string{"p1", "p2", "p3"}
	for _, c := range []struct {
		heard []string
		want  bool
	}{{nil, false}, {[]string{"p2"}, true}, {[]string{"p2", "p3"}, true}, {[]string{"p9"}, false}} {
		w := board.Witnesses{Peers: map[string]bool{}}
		for _, id := range c.heard {
			w.Peers[id] = true
		}
		if got := hearsQuorum(w, three, "p1"); got != c.want {
			t.Errorf("hearing %v: %v", c.heard, got)
		}
	}
	if !hearsQuorum(board.Witnesses{}, []string{"p1"}, "p1") {
		t.Error("a cluster of one hears itself")
	}
}
