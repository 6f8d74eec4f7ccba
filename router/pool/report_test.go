package pool

import (
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"
)

func TestNeverServedHasNoEntry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, row("m", ready("a"), ready("b")))
		time.Sleep(time.Hour)
		if _, uses := b.Uses(0, true); len(uses) != 0 {
			t.Errorf("uses %v of a pool that has served nothing", uses)
		}
		if d, known := b.IdleFor("a"); known {
			t.Errorf("idle for %v, want unknown", d)
		}
		b.get("m", &Hint{Avoid: []string{"b"}}).Release(Served)
		time.Sleep(10 * time.Second)
		_, uses := b.Uses(0, true)
		if len(uses) != 1 || uses["a"].Age != 10 || uses["a"].InFlight != 0 {
			t.Errorf("uses %v", uses)
		}
		if d, known := b.IdleFor("a"); d != 10*time.Second || !known {
			t.Errorf("idle for %v %v", d, known)
		}
		if _, known := b.IdleFor("b"); known {
			t.Error("b is known, but was never served")
		}
	})
}

func TestInFlightIsInUseHoweverLong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, row("m", ready("a")))
		l := b.get("m", nil)
		time.Sleep(3 * time.Hour)
		now, uses := b.Uses(3*time.Hour, false)
		if u := uses["a"]; u.InFlight != 1 || u.Age != 0 {
			t.Errorf("uses %v", uses)
		}
		if d, known := b.IdleFor("a"); d != 0 || !known {
			t.Errorf("idle for %v %v", d, known)
		}
		l.Release(Nothing)
		if _, uses = b.Uses(now, false); uses["a"].InFlight != 0 || len(uses) != 1 {
			t.Errorf("the end of a request is a use: %v", uses)
		}
		time.Sleep(time.Second)
		if _, uses = b.Uses(now+1, false); len(uses) != 0 {
			t.Errorf("nothing has changed, yet %v", uses)
		}
	})
}

// TestLeavingAndReturningDuringAStream: the count of a replica that leaves the table and returns is that of its streams, and ends at 0.
func TestLeavingAndReturningDuringAStream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, row("m", ready("a")))
		l := b.get("m", nil)
		b.table(row("m"))
		if n := b.inFlight("a"); n != 1 {
			t.Errorf("gone: %d in flight, want 1: it is still being used", n)
		}
		b.table()
		b.Forget(time.Hour)
		b.table(row("m", ready("a")))
		if n := b.inFlight("a"); n != 1 {
			t.Errorf("returned: %d in flight, want 1", n)
		}
		l.Release(Served)
		l.Release(Served)
		if n := b.inFlight("a"); n != 0 {
			t.Errorf("ended: %d in flight, want 0", n)
		}
	})
}

func TestForgetDropsOnlyWhatIsReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, row("m", ready("a")))
		time.Sleep(time.Second)
		b.get("m", nil).Release(Served)
		b.table()
		b.Forget(time.Second)
		if n := b.inFlight("a"); n != 0 {
			t.Errorf("%d: a use at the moment of the report was forgotten", n)
		}
		b.Forget(time.Second + 1)
		if n := b.inFlight("a"); n != -1 || len(b.known) != 0 {
			t.Errorf("%d: still there after it was reported", n)
		}
	})
}

// TestCountsUnderRandomLives takes, ends, ends twice and changes the table at random, and compares with a plain count.
func TestCountsUnderRandomLives(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, row("m", ready("a")))
		want := map[string]int{}
		var held, ended []*Lease
		ids := []string{"a", "b", "c"}
		for step := range 5000 {
			switch r.IntN(6) {
			case 0: // at least one stays, so that nothing waits
				rows := row("m", ready(ids[r.IntN(3)]))
				for _, id := range ids {
					if r.IntN(2) == 0 && id != rows.Endpoints[0].Replica {
						rows.Endpoints = append(rows.Endpoints, ready(id))
					}
				}
				b.table(rows)
			case 1, 2:
				l := b.get("m", nil)
				want[l.Endpoint.Replica]++
				held = append(held, l)
			case 3, 4:
				if len(held) > 0 {
					i := r.IntN(len(held))
					want[held[i].Endpoint.Replica]--
					held[i].Release([]Verdict{Nothing, Served}[r.IntN(2)])
					ended, held[i] = append(ended, held[i]), held[len(held)-1]
					held = held[:len(held)-1]
				}
			case 5:
				b.Forget(time.Hour)
				if len(ended) > 0 {
					ended[r.IntN(len(ended))].Release(Served)
				}
			}
			for _, id := range ids {
				if got := max(b.inFlight(id), 0); got != want[id] {
					t.Fatalf("step %d: %d in flight on %s, want %d", step, got, id, want[id])
				}
			}
		}
	})
}
