package sim

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"berth/consensus"
	"berth/internal/listen"
	"berth/internal/memnet"
	"berth/peer"
)

// plan says what a run is made of.
type plan struct {
	title   string
	peers   int
	nodes   int
	length  time.Duration // of the faults
	every   time.Duration // one fault, on average
	heals   bool          // liveness: at the end the faults stop
	faults  []fault
	timings consensus.Timings
}

// world is one run: the machines and what is known of them. Its lock is a channel, because a mutex held by someone who sleeps would stop the
// bubble's clock.
type world struct {
	plan
	t     *testing.T
	seed  uint64
	dice  *rand.Rand
	net   *memnet.Network
	dir   string
	story *story
	tally *tally
	book  *book

	lock     chan struct{}
	peers    map[string]*server // by name, those that run and those that died and may come back
	next     int                // number of the next peer
	operator *operator
	farm     []*node
	wg       sync.WaitGroup
}

// server is a peer's machine and, while it runs, the peer on it.
type server struct {
	name, ip, dir string
	disk          *disk
	life          *diskLife
	expect        int
	peer          *peer.Peer // nil: down
	host          *memnet.Host
	end           context.CancelFunc
	done          chan struct{}
	err           error // of Run, once done is closed
	doomed        bool  // its end is part of a fault
	gone          bool  // removed for good
	clock         func() time.Duration
}

func newWorld(t *testing.T, p plan, seed uint64, counts *tally) *world {
	w := &world{
		plan: p, t: t, seed: seed, dice: rand.New(rand.NewPCG(seed, 1)), net: memnet.New(seed), story: tell(t, p.title, seed), tally: counts,
		lock: make(chan struct{}, 1), peers: map[string]*server{}, next: 1,
	}
	dir, err := os.MkdirTemp("", "berth-sim-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	w.dir = dir
	w.book = newBook(w.story)
	w.net.SetLatency(time.Millisecond)
	for range p.peers {
		w.start(w.addServer(p.peers))
	}
	return w
}

func (w *world) do(fn func()) {
	w.lock <- struct{}{}
	defer func() { <-w.lock }()
	fn()
}

func ipOf(n int) string { return fmt.Sprintf("192.0.2.%d", n) }

// addServer makes a new machine; expect 0 joins.
func (w *world) addServer(expect int) *server {
	s := &server{name: fmt.Sprintf("peer-%d", w.next), ip: ipOf(w.next), expect: expect, disk: newDisk()}
	s.dir = filepath.Join(w.dir, s.name)
	s.clock = w.clock()
	w.next++
	w.peers[s.name] = s
	return s
}

func (w *world) config(s *server) peer.Config {
	at := func(port int) peer.Endpoint { return peer.Endpoint{Bind: fmt.Sprintf("%s:%d", s.ip, port)} }
	life := s.disk.renew()
	s.life = life
	return peer.Config{
		Name: s.name, DataDir: s.dir, HTTP: at(peer.PortHTTP), Raft: at(peer.PortRaft), Gossip: at(peer.PortGossip),
		Join: []string{ipOf(1), ipOf(2), ipOf(3)}, BootstrapExpect: s.expect, Policy: listen.Policy{InsecureNoTLS: true},
		Network: s.host, Clock: s.clock, Log: slog.New(teller{story: w.story, who: s.name, tally: w.tally}), Version: "sim", Timings: w.timings,
		BeforeWrite: life.write, Fatal: func(error) { life.end() },
	}
}

// clock makes a machine's clock: it began up to a month before those of the others, and drifts by up to 200 ppm, as quartz does.
func (w *world) clock() func() time.Duration {
	ahead := time.Duration(w.dice.Int64N(int64(30 * 24 * time.Hour)))
	drift := w.dice.Int64N(401) - 200
	return func() time.Duration {
		d := time.Since(w.story.start)
		return ahead + d + d*time.Duration(drift)/1_000_000
	}
}

// start starts a peer's process.
func (w *world) start(s *server) {
	s.host = w.net.Host(s.ip)
	p, err := peer.New(w.config(s))
	if err != nil {
		w.story.wrong("%s cannot be made: %v", s.name, err)
		return
	}
	ctx, end := context.WithCancel(context.Background())
	s.peer, s.end, s.done, s.doomed = p, end, make(chan struct{}), false
	w.story.say(s.name, "starts")
	w.wg.Go(func() { w.live(ctx, s, p) })
	w.wg.Go(func() { w.book.watch(s.name, p, s.done) })
}

// live is a process's life.
func (w *world) live(ctx context.Context, s *server, p *peer.Peer) {
	err := p.Run(ctx)
	s.end()
	w.do(func() {
		switch {
		case errors.Is(err, consensus.ErrRemoved):
			s.gone = true
			w.story.say(s.name, "ends, removed")
		case errors.Is(err, consensus.ErrContradicted):
			w.tally.add("logs dropped", 1)
			w.story.say(s.name, "ends, to start without its log: %v", err)
		case err != nil && !s.doomed && !s.disk.misbehaved():
			w.story.wrong("%s ended by itself: %v", s.name, err)
		default:
			w.story.say(s.name, "has ended: %v", err)
		}
		s.err, s.peer = err, nil
		s.host.Kill() // whatever the process still held
	})
	close(s.done)
}

// kill ends a process as SIGKILL does: nothing that it would still say reaches anyone.
func (w *world) kill(s *server) {
	s.doomed = true
	s.host.Kill()
	s.life.end()
	s.end()
}

// running lists the peers that run, in order of name.
func (w *world) running() []*server {
	var out []*server
	for _, name := range slices.Sorted(maps.Keys(w.peers)) {
		if s := w.peers[name]; s.peer != nil && !s.doomed {
			out = append(out, s)
		}
	}
	return out
}

// down lists the peers that may be started again.
func (w *world) down() []*server {
	var out []*server
	for _, name := range slices.Sorted(maps.Keys(w.peers)) {
		if s := w.peers[name]; s.peer == nil && !s.gone {
			out = append(out, s)
		}
	}
	return out
}

// urls are the API addresses of every machine that is not gone, in a random order.
func (w *world) urls(dice *rand.Rand) []string {
	var out []string
	w.do(func() {
		for _, name := range slices.Sorted(maps.Keys(w.peers)) {
			if s := w.peers[name]; !s.gone {
				out = append(out, fmt.Sprintf("%s:%d", s.ip, peer.PortHTTP))
			}
		}
	})
	dice.Shuffle(len(out), func(i, j int) { out[i], out[j] = out[j], out[i] })
	return out
}

// close ends everything that still runs.
func (w *world) close() {
	w.do(func() {
		w.net.HealAll()
		for _, s := range w.peers {
			s.disk.set(0, nil, false)
			if s.peer != nil {
				w.kill(s)
			}
		}
	})
	w.wg.Wait()
}

// pause sleeps unless the context ends first.
func pause(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}
