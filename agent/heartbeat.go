package agent

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"time"

	"berth/fleet/wire"
)

const (
	// doorPatience is how long a door may take to give its reading; one that is later is left out.
	doorPatience = 500 * time.Millisecond
	// beatLimit bounds one heartbeat with all the peers that the client may try for it.
	beatLimit = 5 * time.Second
)

// pulse sends heartbeats. It waits for doors, for so long and no longer, and for nothing else of this machine: a driver call that hangs must not
// make the node look dead.
type pulse struct {
	cfg     *Config
	disk    *disk
	machine *machine
	crew    *crew
	contact *contact
	reg     *registrar
	meter   *meter
	log     *slog.Logger

	seq     uint64
	stamp   *wire.Stamp // the newest noted
	every   time.Duration
	failing bool
	peers   []string // addresses last applied
	asking  sync.WaitGroup
}

func (p *pulse) run(ctx context.Context) error {
	defer p.asking.Wait()
	p.every = p.cfg.Interval
	next := time.Now()
	for {
		p.beat(ctx)
		next = next.Add(p.every)
		if now := time.Now(); next.Before(now) { // a beat that took longer than H costs the beats it missed
			next = now
		}
		if !pause(ctx, time.Until(next)) {
			return nil
		}
	}
}

// beat sends one heartbeat. The stamp is noted before any door is asked: a reading proves nothing later than that.
// (DESIGN §8, rule 6.)
func (p *pulse) beat(ctx context.Context) {
	noted := p.stamp
	p.seq++
	h := wire.Heartbeat{
		Version: wire.Version, Node: p.cfg.Name, ID: p.disk.id, Instance: p.disk.instance, Seq: p.seq,
		Readings: p.readings(ctx, noted), GPUs: p.machine.load(),
	}
	if seen := p.disk.seen(); !seen.IsZero() {
		h.Orders = seen.String()
	}
	ctx, cancel := context.WithTimeout(ctx, beatLimit)
	defer cancel()
	answer, err := p.cfg.Peers.Heartbeat(ctx, h)
	if err == nil {
		err = p.disk.belongs(answer.Cluster)
	}
	p.tell(err)
	if err == nil {
		p.take(answer)
	}
}

// tell logs the first of a row of failures, and its end.
func (p *pulse) tell(err error) {
	switch {
	case err != nil:
		p.meter.beats.WithLabelValues("error").Inc()
		if !p.failing {
			p.log.Warn("no peer takes the heartbeat", "error", err)
		}
	default:
		p.meter.beats.WithLabelValues("ok").Inc()
		if p.failing {
			p.log.Info("a peer takes the heartbeat again")
		}
	}
	p.failing = err != nil
}

func (p *pulse) take(a wire.HeartbeatAnswer) {
	if a.Stamp != nil {
		p.contact.hear()
		if newer(*a.Stamp, p.stamp) {
			s := *a.Stamp
			p.stamp = &s
		}
	}
	if h := a.Interval.Std(); h > 0 {
		p.every = h
	}
	if a.Register {
		p.reg.again("a peer asked for it")
	}
	p.address(a.PeerHTTP)
}

// newer compares stamps as §8 does: by term, and by the leader's clock within one.
func newer(s wire.Stamp, than *wire.Stamp) bool {
	if than == nil || s.Term != than.Term {
		return than == nil || s.Term > than.Term
	}
	return s.Clock > than.Clock
}

// address follows the peers to where they are now.
func (p *pulse) address(addrs []string) {
	if len(addrs) == 0 || p.cfg.Addresses == nil || slices.Equal(addrs, p.peers) {
		return
	}
	if err := p.cfg.Addresses.SetAddrs(addrs); err != nil {
		p.log.Warn("the peers' addresses are not taken", "error", err)
		return
	}
	p.peers = addrs
}

// readings asks every door at once and takes what has come in doorPatience. A door that still owes an answer is not asked again.
func (p *pulse) readings(ctx context.Context, noted *wire.Stamp) []wire.Reading {
	ctx, cancel := context.WithTimeout(ctx, doorPatience)
	defer cancel()
	doors := p.crew.doors()
	answers := make(chan wire.Reading, len(doors))
	var asked sync.WaitGroup
	for _, k := range doors {
		if !k.asking.CompareAndSwap(false, true) {
			continue
		}
		asked.Add(1)
		p.asking.Go(func() {
			defer asked.Done()
			defer k.asking.Store(false)
			if r, err := k.reading(ctx); err == nil {
				answers <- r
			}
		})
	}
	all := make(chan struct{})
	p.asking.Go(func() { asked.Wait(); close(all) })
	select {
	case <-all:
	case <-ctx.Done():
	}
	return collect(answers, noted)
}

func collect(answers <-chan wire.Reading, noted *wire.Stamp) []wire.Reading {
	var out []wire.Reading
	for {
		select {
		case r := <-answers:
			r.Stamp = noted
			out = append(out, r)
		default:
			return out
		}
	}
}
