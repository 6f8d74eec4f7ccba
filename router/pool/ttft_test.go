package pool

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"berth/fleet/wire"
	"berth/router/prefix"
)

// prompt is a chain of n blocks that tells one prompt from another by its seed, behind the blocks that it shares.
func prompt(shared []uint64, seed uint64, n int) Prompt {
	p := Prompt{Blocks: append([]uint64{}, shared...)}
	for range n {
		seed = prefix.Mix(seed, 99)
		p.Blocks = append(p.Blocks, seed)
	}
	p.Bytes = len(p.Blocks) * prefix.BlockSize
	return p
}

// fleetOf is a model of so many replicas under a policy.
func fleetOf(policy string, n int) wire.TableModel {
	r := row("m")
	r.Serve.Policy, r.Serve.Queue.Limit = policy, 1000
	for i := range n {
		r.Endpoints = append(r.Endpoints, ready(fmt.Sprint("r", i)))
	}
	return r
}

// serve takes a request to a replica that computes and answers it in seconds, and returns which.
func (b *bench) serve(p Prompt, seconds float64) string {
	b.Helper()
	l := b.get("m", &Hint{Prompt: p, Stream: true})
	time.Sleep(time.Duration(seconds * float64(time.Second)))
	l.Answered()
	l.Release(Served)
	return l.Endpoint.Replica
}

// TestBurstOfOnePrefix: field case C52. Two hundred requests at once with the same eight kilobytes are spread.
func TestBurstOfOnePrefix(t *testing.T) {
	for _, policy := range []string{"ttft", "prefix-bounded", "least-loaded", "round-robin"} {
		synctest.Test(t, func(t *testing.T) {
			b := newBench(t, fleetOf(policy, 4))
			count := map[string]int{}
			for range 200 {
				count[b.get("m", &Hint{Prompt: prompt(nil, 1, 16), Stream: true}).Endpoint.Replica]++
			}
			for r, n := range count {
				if n > 75 {
					t.Errorf("%s: %s has %d of 200", policy, r, n)
				}
			}
		})
	}
}

// TestRepeatsHitTheSameReplica: field case C52. Twenty prefixes, each asked for twenty times in turn.
func TestRepeatsHitTheSameReplica(t *testing.T) {
	for _, policy := range []string{"ttft", "prefix-bounded"} {
		synctest.Test(t, func(t *testing.T) {
			b := newBench(t, fleetOf(policy, 4))
			at, same := map[uint64]string{}, 0
			used := map[string]bool{}
			for round := range uint64(20) {
				for seed := range uint64(20) {
					p := prompt(nil, 100+seed, 16)
					p.Blocks = append(p.Blocks, prefix.Mix(seed, round)) // its own end
					r := b.serve(p, 0.1)
					if at[seed] == r {
						same++
					}
					at[seed], used[r] = r, true
				}
			}
			if same < 19*20*9/10 || len(used) < 4 {
				t.Errorf("%s: %d of 380 repeats hit, on %d replicas", policy, same, len(used))
			}
		})
	}
}

// TestUnknownPromptsGoByLoad: field case C52. One replica has fifty in flight and gets none of a hundred new prompts.
func TestUnknownPromptsGoByLoad(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, fleetOf("ttft", 4))
		for range 50 {
			b.on("r0").Answered()
		}
		for i := range uint64(100) {
			if l := b.get("m", &Hint{Prompt: prompt(nil, 1000+i, 8), Stream: true}); l.Endpoint.Replica == "r0" {
				t.Fatalf("number %d goes to the replica with fifty in flight", i)
			}
		}
	})
}

// TestASharedBeginTellsNothing: every prompt of the Mooncake trace shares its first block; pure longest-prefix would send
// all to one replica. What follows it decides, with sixteen in flight.
func TestASharedBeginTellsNothing(t *testing.T) {
	for _, policy := range []string{"ttft", "prefix-bounded"} {
		synctest.Test(t, func(t *testing.T) {
			b := newBench(t, fleetOf(policy, 8))
			count := map[string]int{}
			system := prompt(nil, 7, 4).Blocks
			var flying []*Lease
			for i := range uint64(400) {
				l := b.get("m", &Hint{Prompt: prompt(system, 100+i, 20), Stream: true})
				count[l.Endpoint.Replica]++
				time.Sleep(100 * time.Millisecond)
				if flying = append(flying, l); len(flying) > 16 {
					flying[0].Answered()
					flying[0].Release(Served)
					flying = flying[1:]
				}
			}
			for r, n := range count {
				if n > 100 {
					t.Errorf("%s: %s has %d of 400", policy, r, n)
				}
			}
		})
	}
}

func TestSessionsAndAdaptersAreAffinities(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, fleetOf("ttft", 4))
		sessions, adapters := map[string]bool{}, map[string]bool{}
		for range 20 {
			sessions[b.serve(Prompt{Session: 5, Bytes: 40_000}, 0.5)] = true
			b.serve(Prompt{}, 0.01) // something else in between
			adapters[b.serve(Prompt{Adapter: 6, Bytes: 100}, 0.01)] = true
		}
		if len(sessions) != 1 || len(adapters) != 1 {
			t.Errorf("the session was at %v, the adapter at %v", sessions, adapters)
		}
	})
}

// TestTiesAreSpread: idle replicas take turns for what says nothing.
func TestTiesAreSpread(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, fleetOf("ttft", 4))
		count := map[string]int{}
		for range 40 {
			count[b.serve(Prompt{Bytes: 100}, 0)]++
		}
		for r, n := range count {
			if n != 10 {
				t.Errorf("%s has %d of 40", r, n)
			}
		}
	})
}

// TestPaceIsLearned: what a replica takes for a prompt, and that one of them is slow, which then gets less.
func TestPaceIsLearned(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		seed := uint64(time.Now().UnixNano())
		t.Logf("seed %d", seed)
		r := rand.New(rand.NewPCG(seed, 1))
		b := newBench(t, fleetOf("ttft", 2))
		count := map[string]int{}
		for i := range uint64(200) {
			p := prompt(nil, r.Uint64(), 1+r.IntN(200))
			l := b.get("m", &Hint{Prompt: p, Stream: true})
			perByte := 1e-5
			if l.Endpoint.Replica == "r1" {
				perByte = 1e-4
			}
			time.Sleep(time.Duration((0.1 + perByte*float64(p.Bytes)) * float64(time.Second)))
			l.Answered()
			l.Release(Served)
			if i >= 100 {
				count[l.Endpoint.Replica]++
			}
		}
		m := b.known["m"]
		fixed, perByte := m.replicas[0].pace.line(m.pace)
		if fixed < 0.05 || fixed > 0.2 || perByte < 0.7e-5 || perByte > 1.3e-5 || count["r1"] > 20 {
			t.Errorf("learned %.3f s and %.3g s a byte; the slow one had %d of 100", fixed, perByte, count["r1"])
		}
	})
}

// TestCapacityIsLearned: a replica that turns out not to have what it had is believed to keep less, and more when it does.
func TestCapacityIsLearned(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, fleetOf("ttft", 1))
		r := b.known["m"].replicas[0]
		p := prompt(nil, 1, 100)
		full := 0.02 + priorPerByte*float64(p.Bytes)
		b.serve(p, full)
		for i := range uint64(20) { // new prompts in between, and then it computes all of the old one again
			b.serve(prompt(nil, 100+i, 100), full)
		}
		before := r.index.Limit()
		b.serve(p, full)
		if after := r.index.Limit(); after >= before {
			t.Errorf("believed to keep %d blocks, after a miss %d", before, after)
		}
		r.index.SetLimit(500)
		for i := range uint64(20) {
			b.serve(prompt(nil, 200+i, 100), full)
		}
		b.serve(p, 0.03)
		if after := r.index.Limit(); after <= 500 {
			t.Errorf("believed to keep %d blocks after a hit beyond 500", after)
		}
	})
}

// TestRoutersAgree: three routers that know nothing of each other find what any of them has placed.
func TestRoutersAgree(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		routers := []*bench{newBench(t, fleetOf("ttft", 8)), newBench(t, fleetOf("ttft", 8)), newBench(t, fleetOf("ttft", 8))}
		has := map[uint64]map[string]bool{}
		hits, repeats := 0, 0
		for turn := range 6 {
			for seed := range uint64(60) {
				p := prompt(nil, 100+seed, 20+turn)
				b := routers[(turn+int(seed))%3]
				l, err := b.Acquire(context.Background(), "m", &Hint{Prompt: p, Stream: true})
				if err != nil {
					t.Fatal(err)
				}
				r := l.Endpoint.Replica
				took := 0.5
				if has[seed][r] {
					took = 0.05
				}
				if turn >= 3 {
					repeats++
					if has[seed][r] {
						hits++
					}
				}
				time.Sleep(time.Duration(took * float64(time.Second)))
				l.Answered()
				l.Release(Served)
				if has[seed] == nil {
					has[seed] = map[string]bool{}
				}
				has[seed][r] = true
			}
		}
		if hits < repeats*9/10 {
			t.Errorf("%d of %d repeats hit", hits, repeats)
		}
	})
}
