package door_test

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"berth/agent/shim/door"
	"berth/fleet"
	"berth/fleet/wire"
)

func TestGateReading(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		g := door.NewGate(7, func() time.Duration { return time.Since(began) })
		if r := g.Reading(); r.UseAge != nil || r.ReadyAge != nil || r.Shim != 7 || r.Number != 1 {
			t.Errorf("a door that saw nothing: %+v", r)
		}
		if _, why := g.Admit(); why != wire.DoorStarting {
			t.Errorf("before the engine: %q", why)
		}
		g.Starting(1)
		g.Ready()
		time.Sleep(10 * time.Second)
		done, why := g.Admit()
		if why != "" {
			t.Fatal(why)
		}
		time.Sleep(10 * time.Second)
		done()
		done() // once more changes nothing
		time.Sleep(3 * time.Second)
		r := g.Reading()
		if r.InFlight != 0 || r.Admissions != 1 || *r.UseAge != 3 || *r.ReadyAge != 23 || r.Engine != 1 || r.Number != 2 {
			t.Errorf("%+v, use %v, ready %v", r, *r.UseAge, *r.ReadyAge)
		}
		g.Starting(2)
		if r := g.Reading(); r.ReadyAge != nil || *r.UseAge != 3 || r.Admissions != 1 {
			t.Errorf("after the engine's end: %+v", r)
		}
	})
}

func TestTryShutComparesTheMark(t *testing.T) {
	for name, change := range map[string]func(*door.Gate){
		"admission":    func(g *door.Gate) { done, _ := g.Admit(); done() },
		"in flight":    func(g *door.Gate) { _, _ = g.Admit() },
		"engine start": func(g *door.Gate) { g.Starting(2); g.Ready() },
		"engine gone":  func(g *door.Gate) { g.Starting(1) },
		"shut":         func(g *door.Gate) { g.Shut() },
		"nothing":      nil,
	} {
		g := door.NewGate(7, func() time.Duration { return 0 })
		g.Starting(1)
		g.Ready()
		mark := g.Mark()
		if change != nil {
			change(g)
		}
		if got := g.TryShut(mark); got != (change == nil) {
			t.Errorf("%s: TryShut gave %v", name, got)
		}
	}
	g := door.NewGate(7, func() time.Duration { return 0 })
	g.Starting(1)
	g.Ready()
	if g.TryShut(fleet.Mark{Shim: 8, Engine: 1}) {
		t.Error("another shim's mark shut the door")
	}
}

// TestTryShutRacesWithAdmissions is the promise that unloading rests on: if the door shuts on a mark, nobody was admitted
// after the mark was taken; and a door that is shut admits nobody.
func TestTryShutRacesWithAdmissions(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		clients, each := rapid.IntRange(1, 6).Draw(t, "clients"), rapid.IntRange(1, 20).Draw(t, "requests")
		g := door.NewGate(1, func() time.Duration { return 0 })
		g.Starting(1)
		g.Ready()
		var all sync.WaitGroup
		admitted := make([]uint64, clients)
		for c := range clients {
			all.Go(func() {
				for range each {
					if done, why := g.Admit(); why == "" {
						admitted[c]++
						done()
					}
				}
			})
		}
		shutAt, didShut := fleet.Mark{}, false
		all.Go(func() {
			for range each {
				r := g.Reading()
				m := fleet.Mark{Shim: r.Shim, Engine: r.Engine, Admissions: r.Admissions}
				if r.InFlight == 0 && g.TryShut(m) {
					shutAt, didShut = m, true
					return
				}
			}
		})
		all.Wait()
		sum := uint64(0)
		for _, n := range admitted {
			sum += n
		}
		r := g.Reading()
		if r.Admissions != sum || r.InFlight != 0 || r.Shut != didShut {
			t.Fatalf("%d were let in, the door says %+v", sum, r)
		}
		if didShut && sum != shutAt.Admissions {
			t.Fatalf("shut at %d admissions, and then %d", shutAt.Admissions, sum)
		}
		if _, why := g.Admit(); didShut && why != wire.DoorShut {
			t.Fatalf("a shut door said %q", why)
		}
	})
}

func TestShutAndOpen(t *testing.T) {
	g := door.NewGate(1, func() time.Duration { return 0 })
	g.Starting(1)
	says := func(want door.Refusal) {
		t.Helper()
		done, why := g.Admit()
		if why != want {
			t.Errorf("the door said %q, want %q", why, want)
		}
		if why == "" {
			done()
		}
	}
	says(wire.DoorStarting)
	g.Shut()
	g.Ready()
	says(wire.DoorShut) // a shut door stays shut when the engine becomes ready
	g.Open()
	says("")
	g.Shut()
	g.Starting(2)
	says(wire.DoorShut)
	g.Open()
	says(wire.DoorStarting)
	g.Ready()
	says("")
}

func TestEmpty(t *testing.T) {
	g := door.NewGate(1, func() time.Duration { return 0 })
	g.Starting(1)
	g.Ready()
	one, _ := g.Admit()
	two, _ := g.Admit()
	g.Shut()
	empty := g.Empty()
	one()
	select {
	case <-empty:
		t.Fatal("empty with one in flight")
	default:
	}
	two()
	<-empty
	<-g.Empty()
}
