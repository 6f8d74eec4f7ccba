package dev

import (
	"context"
	"flag"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"berth/admin/client"
	"berth/agent/engine/sim"
	"berth/fleet"
	"berth/fleet/wire"
)

var (
	truthFor  = flag.Duration("truth.for", 0, "how long to play random schedules of a whole cluster against the truth, of real time; 0 plays one")
	truthSeed = flag.Uint64("truth.seed", 0, "first seed; 0 takes one from the clock")
)

// truthLength is the virtual length of one schedule.
const truthLength = 8 * time.Minute

// TestAWholeClusterNeverClaimsMoreQuietThanTrue plays random schedules of requests and faults through real routers, doors, agents and leaders. The
// oracle knows nothing but which requests the engines received.
func TestAWholeClusterNeverClaimsMoreQuietThanTrue(t *testing.T) {
	seed := *truthSeed
	if seed == 0 {
		seed = uint64(time.Now().UnixNano())
	}
	began := time.Now()
	for n := seed; ; n++ {
		t.Logf("replay with -truth.seed=%d", n)
		schedule(t, n)
		if t.Failed() || time.Since(began) >= *truthFor {
			return
		}
	}
}

func schedule(t *testing.T, seed uint64) {
	s := &truth{rng: rand.New(rand.NewPCG(seed, 3)), engines: map[string][]start{}, alive: map[string]bool{}, busy: map[string]bool{}, faults: map[string]int{}}
	inBubble(t, func(c *Config) {
		c.Nodes, c.PeersOnDisk = 3, true
		c.Engine = s.started
		c.Clock = drifting(s.rng.Uint64())
	}, func(b *bubble) {
		s.bubble = b
		b.nodes(3)
		for i := range 4 {
			spec := sleeper(fmt.Sprint("m", i), 1)
			spec.Engine.Args = []string{"--load-time=1s", "--tokens-per-second=50"}
			spec.Idle = fleet.IdleSpec{UnloadAfter: fleet.Duration(unloadAfter), MinResidence: fleet.Duration(time.Second)}
			b.applySpec(spec)
		}
		for end := time.Now().Add(truthLength); time.Now().Before(end) && !t.Failed(); time.Sleep(250 * time.Millisecond) {
			s.act()
			s.check()
		}
		b.net.HealAll()
		s.work.Wait()
	})
	injected := 0
	for _, n := range s.faults {
		injected += n
	}
	t.Logf("%d faults %v, %d requests, %d of them around the routers, %d claims of quiet checked, the longest %.0f s, %d replicas unloaded", injected, s.faults, s.requests, s.passed, s.claims, s.longest, s.unloaded)
	if s.claims < 500 || s.longest < 8 || s.unloaded < 10 || injected < 20 {
		t.Error("too little happened for the schedule to mean anything")
	}
}

// drifting gives each machine a boot clock of its own, which began at another time and is wrong by up to 200 parts in a million. What took an age from
// the time of day of a machine, or from another machine's clock, would be wrong by days.
func drifting(seed uint64) func(machine string) func() time.Duration {
	began := time.Now()
	return func(machine string) func() time.Duration {
		sum := fnv.New64a()
		_, _ = sum.Write([]byte(machine))
		rng := rand.New(rand.NewPCG(seed, sum.Sum64()))
		off, ppm := time.Duration(rng.Int64N(int64(1000*time.Hour))), rng.Int64N(401)-200
		return func() time.Duration {
			d := time.Since(began)
			return off + d + d/1_000_000*time.Duration(ppm)
		}
	}
}

const unloadAfter = 12 * time.Second

// start is one start of an engine, and when it was made.
type start struct {
	*sim.Engine
	made time.Time
}

// truth plays a schedule and compares what the cluster says with what the engines received.
type truth struct {
	*bubble
	rng  *rand.Rand
	work sync.WaitGroup

	mu      sync.Mutex
	engines map[string][]start // by replica
	busy    map[string]bool    // machines that something is being done to

	alive                              map[string]bool // replicas that the state had at the last look
	faults                             map[string]int  // by kind
	requests, claims, unloaded, passed int
	longest                            float64
}

func (s *truth) started(_, replica string, e *sim.Engine) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.engines[replica] = append(s.engines[replica], start{e, time.Now()})
}

// quiet is for how long, up to a moment, a replica's engine had truly been made and without a request. It is too long by as much as a request took.
func (s *truth) quiet(replica string, at time.Time) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	var since time.Time
	for _, e := range s.engines[replica] {
		if !e.made.After(at) && e.made.After(since) {
			since = e.made
		}
	}
	for _, e := range s.engines[replica] {
		for _, r := range e.Requests() {
			arrived := e.made.Add(time.Duration(r.OffsetMS) * time.Millisecond)
			switch {
			case !arrived.Before(at.Add(-time.Millisecond)): // in a bubble both can be at one instant, and records are cut to a millisecond
			case r.Outcome == sim.Running:
				return 0
			case arrived.After(since):
				since = arrived
			}
		}
	}
	return at.Sub(since)
}

// check compares every peer's word with the truth, and what has ended with what it had received.
func (s *truth) check() {
	s.t.Helper()
	for _, url := range s.PeerURLs() {
		ctl, err := client.New(client.Config{Addrs: []string{url}, HTTP: s.http})
		if err != nil {
			s.t.Fatal(err)
		}
		asked := time.Now()
		ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
		answer, _, err := ctl.Idle(ctx)
		cancel()
		if err != nil {
			continue // down, cut off, or without a leader: it claims nothing
		}
		for _, v := range answer.Replicas {
			s.claim(url, v, asked)
		}
	}
	s.ended()
}

// claim checks one word of a peer that was given at some moment since it was asked.
func (s *truth) claim(peer string, v wire.IdleView, asked time.Time) {
	if v.QuietSeconds < 0 {
		return
	}
	s.claims++
	s.longest = max(s.longest, v.QuietSeconds)
	age := time.Duration(v.AsOfSeconds * float64(time.Second))
	slack := age / 2500 // the peer's clock, and so the age, is wrong by up to 200 parts in a million, and so may be the one that it was compared with
	truly := max(s.quiet(v.ID, time.Now().Add(-age-slack)), s.quiet(v.ID, asked.Add(-age-slack)))
	if v.QuietSeconds > truly.Seconds()+0.002 { // the engine's records are cut to a millisecond
		s.t.Errorf("%s: asked %s before, %s says that %s was quiet for %.3f s as of %.6f s ago; it was for %s; it received:\n%s",
			stamped(time.Now()), time.Since(asked), peer, v.ID, v.QuietSeconds, v.AsOfSeconds, truly, s.received(v.ID))
	}
}

func stamped(t time.Time) string { return t.Format("04:05.000000") }

// received lists the last requests of a replica's engines.
func (s *truth) received(replica string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out strings.Builder
	for _, e := range s.engines[replica] {
		fmt.Fprintf(&out, "  engine made at %s\n", stamped(e.made))
		for _, r := range e.Requests() {
			fmt.Fprintf(&out, "    %s %s %s, %d tokens\n", stamped(e.made.Add(time.Duration(r.OffsetMS)*time.Millisecond)), r.Route, r.Outcome, r.CompletionTokens)
		}
	}
	return out.String()
}

// ended looks at the replicas that are no more: nothing in a schedule ends one but unloading.
func (s *truth) ended() {
	rows, _, err := s.ctl.Replicas(context.Background(), nil)
	if err != nil {
		return
	}
	now := map[string]bool{}
	for _, r := range rows {
		now[r.ID] = true
	}
	for id := range s.alive {
		if now[id] {
			continue
		}
		s.unloaded++
		if quiet := s.quiet(id, time.Now()); quiet < unloadAfter {
			s.t.Errorf("%s: %s was unloaded, and was used %s ago; its history:\n%s", time.Now().Format(time.TimeOnly), id, quiet, s.history(id))
		}
	}
	s.alive = now
}

// history lists what the peers say has happened to a replica.
func (s *truth) history(replica string) string {
	events, _, err := s.ctl.Events(context.Background(), url.Values{"replica": {replica}})
	if err != nil {
		return err.Error()
	}
	var out strings.Builder
	for _, e := range events {
		fmt.Fprintf(&out, "    %s %s %s: %s %s\n", e.At.Std().UTC().Format("04:05.000"), e.Who, e.Command, e.Text, e.Why)
	}
	return out.String()
}

// act does one random thing.
func (s *truth) act() {
	switch n := s.rng.IntN(100); {
	case n < 12:
		spell := int(time.Now().Unix()/25) % 4 // models are asked for in spells, so that each has times of quiet
		s.request((spell + s.rng.IntN(2)) % 4)
	case n < 14:
		s.request(s.rng.IntN(4))
	case n < 16:
		s.knock()
	case n < 19:
		s.fault()
	}
}

// request asks a router.
func (s *truth) request(n int) {
	model, url := fmt.Sprint("m", n), s.RouterURLs()[s.rng.IntN(2)]
	tokens := 1 + s.rng.IntN(100)
	s.requests++
	s.work.Go(func() {
		if status, body := s.post(url+"/chat/completions", nil, model, tokens); status != http.StatusOK && status != http.StatusServiceUnavailable && status != 0 && status != http.StatusNotFound {
			s.t.Errorf("%s: %d %s", time.Now().Format(time.TimeOnly), status, body)
		}
	})
}

// knock asks a door past the routers.
func (s *truth) knock() {
	table, err := s.ctl.Table(context.Background(), fleet.Index{}, 0)
	if err != nil {
		return
	}
	var doors []wire.Endpoint
	var models []string
	for _, m := range table.Models {
		for _, e := range m.Endpoints {
			doors, models = append(doors, e), append(models, m.Name)
		}
	}
	if len(doors) == 0 {
		return
	}
	i := s.rng.IntN(len(doors))
	s.requests++
	s.passed++
	s.work.Go(func() {
		s.post("http://"+doors[i].Address+"/v1/chat/completions", map[string]string{wire.HeaderReplicaKey: doors[i].Key}, models[i], 5)
	})
}

// fault breaks something for a while that is less than node_grace, so that no node is given up.
func (s *truth) fault() {
	roles := []string{"peer-1", "peer-2", "peer-3", "node-1", "node-2", "node-3", "router-1", "router-2"}
	machine := roles[s.rng.IntN(len(roles))]
	lasts := time.Duration(1+s.rng.IntN(20)) * time.Second
	how := s.rng.IntN(3)
	peer := machine[:4] == "peer"
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.busy[machine] || peer && (s.busy["peer-1"] || s.busy["peer-2"] || s.busy["peer-3"]) {
		return
	}
	s.busy[machine] = true
	kind, _, _ := strings.Cut(machine, "-")
	s.faults[kind+[]string{"s restarted", "s cut off", "s that hear nothing in time"}[how]]++
	s.work.Go(func() {
		defer func() {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.busy[machine] = false
		}()
		switch how {
		case 0:
			s.restart(machine, lasts)
		case 1:
			s.part(machine, lasts, s.net.Cut)
		default:
			s.part(machine, lasts, s.net.Stall)
		}
	})
}

func (s *truth) restart(machine string, down time.Duration) {
	if machine[:4] == "node" { // the agent only: engines and doors run on
		if err := s.RestartAgent(machine, down); err != nil {
			s.t.Error(err)
		}
		time.Sleep(down)
		return
	}
	if err := s.StopMachine(machine); err != nil {
		s.t.Error(err)
		return
	}
	time.Sleep(down)
	if err := s.StartMachine(machine); err != nil {
		s.t.Error(err)
	}
}

// part comes between a machine and all peers, both ways, while clients still reach it.
func (s *truth) part(machine string, lasts time.Duration, how func(from, to string)) {
	for i := range 3 {
		if p := fmt.Sprint("peer-", i+1); p != machine {
			how(machine, p)
			how(p, machine)
		}
	}
	time.Sleep(lasts)
	s.net.Heal(machine)
}
