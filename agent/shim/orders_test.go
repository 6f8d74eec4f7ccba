package shim_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"berth/agent/shim"
	"berth/fleet"
	"berth/fleet/wire"
)

// TestRandomOrders gives a shim under load whatever orders come, with an engine that dies now and then. Whatever
// happens: the newest order is answered, a quiet door is shut only on its own mark, a shut door lets nobody in, and in
// the end nothing is in flight.
func TestRandomOrders(t *testing.T) {
	for seed := range uint64(60) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			fate := rand.New(rand.NewPCG(seed, 1)) // the engines' own: they are made in another goroutine
			inBubble(t, func(int) script {
				s := script{load: time.Duration(fate.IntN(5)) * time.Second, code: 1}
				if fate.IntN(3) == 0 {
					s.dieAfter = time.Duration(1+fate.IntN(60)) * time.Second
				}
				return s
			}, limits(time.Minute, 1000), func(g *rig) { randomOrders(g, rand.New(rand.NewPCG(seed, 0))) })
		})
	}
}

func randomOrders(g *rig, dice *rand.Rand) {
	var clients sync.WaitGroup
	number, start := uint64(1), uint64(1)
	for range 40 {
		time.Sleep(time.Duration(dice.IntN(8000)) * time.Millisecond)
		if dice.IntN(2) == 0 {
			seconds := dice.IntN(12)
			clients.Go(func() { g.post(seconds) })
			synctest.Wait()
		}
		if dice.IntN(3) > 0 {
			continue
		}
		number++
		d := fleet.Drain{Minimum: seconds(dice.IntN(3)), Deadline: seconds(dice.IntN(10))}
		switch dice.IntN(4) {
		case 0:
			g.order(stop(number, d))
		case 1:
			conditional(g, number, d, dice.IntN(2) == 0)
		case 2:
			g.order(order(number, func(o *wire.Order) { o.Start = start }))
		case 3:
			start++
			g.order(order(number, func(o *wire.Order) { o.Start = start }))
		}
	}
	number++
	g.order(stop(number, fleet.Drain{Deadline: seconds(5)}))
	st, _ := g.until("the end", func(s shim.Status) bool { return s.Phase == shim.Stopped && s.Order.N == number })
	clients.Wait()
	if r := g.reading(); r.InFlight != 0 || !r.Shut || !st.DoorShut || g.post(0) != "shut" {
		g.t.Errorf("in the end %+v, %+v", r, st)
	}
}

// conditional gives a conditional stop by a reading, after which somebody may knock. If the shim then stops, nobody did.
func conditional(g *rig, number uint64, d fleet.Drain, knock bool) {
	r := g.reading()
	served := ""
	if knock {
		served = g.post(0)
	}
	d.Mark = &fleet.Mark{Shim: r.Shim, Engine: r.Engine, Admissions: r.Admissions}
	g.order(stop(number, d))
	st, _ := g.until("an answer", func(s shim.Status) bool { return s.Order.N == number })
	if !st.Withdrawn && (served == "whole" || r.InFlight > 0) {
		g.t.Errorf("the door was shut on %+v although somebody knocked: %+v", r, st)
	}
}

func TestReleasedByProof(t *testing.T) {
	looks := 0
	inBubble(t, always(script{}), func(l *shim.Launch) { l.Order.Claims = []fleet.Claim{{GPU: "GPU-1"}} }, func(g *rig) {
		g.phase(shim.Ready)
		g.order(stop(2, fleet.Drain{}))
		st, stopped := g.phase(shim.Stopped)
		if st.Released {
			t.Error("released before the cards were seen to be empty")
		}
		if _, at := g.until("the proof", func(s shim.Status) bool { return s.Released }); at-stopped != 2*time.Second || looks != 3 {
			t.Errorf("proved after %v and %d looks", at-stopped, looks)
		}
	}, func(_ context.Context, claims []fleet.Claim) (bool, error) {
		if len(claims) != 1 || claims[0].GPU != "GPU-1" {
			t.Errorf("asked for %v", claims)
		}
		looks++
		return looks > 2, nil
	})
}
