package gossip

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"net"
	"slices"
	"sync"
	"time"
)

// memberlist forgets who was cut off for longer than half a minute, and two halves of a split never meet again by themselves. So every
// member goes on trying a few of those that it knows and does not see.
const (
	rejoinEvery = 10 * time.Second // ± 50 %, so that a fleet does not try in step
	rejoinTries = 3
	// firstWait is the wait after the first round that reached nobody; it doubles up to rejoinEvery.
	firstWait = 500 * time.Millisecond
	// secondLook is when a member that has just joined exchanges everything with a seed again. Where a whole fleet starts at once, each
	// is gossiped about while few know of each other, and who was missed would be missed until the next full exchange.
	secondLook = time.Second
)

func (g *Gossip) joinLoop(ctx context.Context) error {
	known := g.loadKnown()
	wait, reached, settled := firstWait, false, false
	for {
		if !g.gone() {
			ok := g.round(ctx, known, !settled)
			settled = reached // this was the second look, or a later one
			reached = reached || ok
		}
		pause := rejoinEvery/2 + rand.N(rejoinEvery)
		switch {
		case reached && !settled:
			pause = secondLook
		case !reached && wait < rejoinEvery:
			pause, wait = wait, wait*2
		}
		timer := time.NewTimer(pause)
		select {
		case <-ctx.Done():
			timer.Stop()
			return nil
		case <-timer.C:
		}
	}
}

// round tries a few missing members at once and waits for them, in the beginning also seeds that are not missing. It is true if one was
// reached.
func (g *Gossip) round(ctx context.Context, known []string, beginning bool) bool {
	missing := g.missing(ctx, known, beginning)
	addrs := slices.Collect(maps.Keys(missing))
	rand.Shuffle(len(addrs), func(i, j int) { addrs[i], addrs[j] = addrs[j], addrs[i] })
	var tries sync.WaitGroup
	results := make([]bool, min(rejoinTries, len(addrs)))
	for i := range results {
		tries.Go(func() { results[i] = g.join(addrs[i], missing[addrs[i]]) })
	}
	tries.Wait()
	return slices.Contains(results, true)
}

// missing gives the addresses of seeds, of members known from before, and of members gone, less those that are seen alive; each
// with the seed that it stands for, if any. In the beginning seeds count as missing.
func (g *Gossip) missing(ctx context.Context, known []string, beginning bool) map[string]string {
	want := make(map[string]string)
	members := g.Members()
	for _, addr := range known {
		want[addr] = ""
	}
	for _, m := range members {
		if m.State == Dead {
			want[m.Gossip] = ""
		}
	}
	for _, seed := range g.cfg.Seeds {
		for _, addr := range g.seedAddresses(ctx, seed) {
			want[addr] = seed
		}
	}
	for _, m := range members {
		if m.State == Alive && !(beginning && want[m.Gossip] != "") {
			delete(want, m.Gossip)
		}
	}
	delete(want, g.Address())
	return want
}

// seedAddresses looks a seed up each time, because what its name stands for may change.
func (g *Gossip) seedAddresses(ctx context.Context, seed string) []string {
	host, port, _ := splitSeed(seed) // checked by Validate
	ips, err := lookup(ctx, g.cfg, host)
	if err != nil {
		if ctx.Err() == nil {
			g.cannot(seed, fmt.Sprintf("%v; write --join HOST[:%d] with a name that resolves, or an address", err, Port))
		}
		return nil
	}
	var out []string
	for _, ip := range ips {
		out = append(out, net.JoinHostPort(ip.String(), port))
	}
	return out
}

// join exchanges everything with the member at an address. Why that fails is told for seeds only: that a member seen before is gone, everyone
// knows.
func (g *Gossip) join(addr, seed string) bool {
	seen, done := g.transport.attempt(addr)
	defer done()
	refused := g.refusals.Load()
	_, err := g.list.Join([]string{addr})
	switch {
	case err == nil:
		return true
	case g.gone() || g.refusals.Load() != refused: // a stranger was reported already
	case seed == "":
	case seed == addr:
		g.cannot(addr, g.diagnose(seen))
	default:
		g.cannot(seed+" ("+addr+")", g.diagnose(seen))
	}
	return false
}

// cannot logs why a seed cannot be joined, once until there is another reason.
func (g *Gossip) cannot(seed, why string) {
	if g.first("join " + seed + " " + why) {
		g.cfg.Log.Warn("gossip: cannot join " + seed + ": " + why)
	}
}

// Message types of memberlist that can begin an answer (memberlist/net.go).
const (
	typePushPull = 6
	typeCompress = 9
	typeEncrypt  = 10
	typeError    = 13
)

// diagnose says what is wrong from what came over the wire, since memberlist's own error does not name the cause on the other side.
func (g *Gossip) diagnose(a *attempt) string {
	if a.dial != nil {
		return fmt.Sprintf("%v; is a member of Berth running there, and is this its gossip port (%d unless changed)?", a.dial, Port)
	}
	answer := a.answer()
	keyed := g.keyring != nil
	switch {
	case len(answer) == 0:
		return "it closed the connection without an answer: it is no gossip port, or its members have another gossip key or label"
	case bytes.HasPrefix(answer, []byte("HTTP/")):
		return fmt.Sprintf("it answers HTTP: give the gossip port of the member, which is %d unless changed", Port)
	case answer[0] == typeEncrypt && keyed:
		return "its gossip has another key: give the same key to all members"
	case answer[0] == typeEncrypt:
		return "its gossip is encrypted: this member needs the same gossip key"
	case keyed && (answer[0] == typePushPull || answer[0] == typeCompress || answer[0] == typeError):
		return "its gossip is not encrypted and ours is: give the same gossip key to all members"
	case answer[0] == typePushPull || answer[0] == typeCompress || answer[0] == typeError:
		return "the exchange broke off; it will be tried again"
	default:
		return fmt.Sprintf("it answers with something that is not gossip (%q): give the gossip port of a member, which is %d unless changed", answer, Port)
	}
}
