package board

import (
	"slices"
	"time"

	"berth/fleet"
	"berth/fleet/wire"
	"berth/idle"
)

// Outgoing is what this follower has for the leader: the newest heartbeat of each life of a node, whole, and the gossip members that it sees alive. What
// was taken and did not arrive is put back by Undelivered.
func (b *Board) Outgoing(alive map[string]uint64) wire.Relay {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := b.Clock()
	r := wire.Relay{Version: wire.Version, Peer: b.Peer, Alive: alive, Have: b.mirror.heard()}
	for whose, h := range b.held {
		r.Heartbeats = append(r.Heartbeats, wire.Held{HeldSeconds: (now - h.at).Seconds(), Heartbeat: h.heartbeat})
		delete(b.held, whose)
	}
	return r
}

// Undelivered puts heartbeats back that the leader did not get, unless newer ones have come since. The time that the attempt took is added to
// their age by the caller.
func (b *Board) Undelivered(r wire.Relay, took time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := b.Clock()
	for _, back := range r.Heartbeats {
		h := back.Heartbeat
		if old, ok := b.held[lifeOf(h)]; !ok || h.Seq > old.heartbeat.Seq {
			b.held[lifeOf(h)] = held{h, now - took - seconds(back.HeldSeconds)}
		}
	}
}

// Delivered takes the leader's answer to a relay that took so long. The leader may have given it at any moment since it was asked, so its ages count from
// then: otherwise an answer that was long on its way would say of a replica that it was quiet until lately. An answer of an older term than the newest
// known is dropped: its stamps prove nothing any more.
func (b *Board) Delivered(a wire.RelayAnswer, took time.Duration) {
	at := b.Clock() - took
	if taken, others := b.hearLeader(a, at); taken && a.Observed != nil {
		b.mirror.take(at, a)
		if others {
			b.refused.ring()
		}
	}
}

// hearLeader takes a leader's word, but for its rows, unless it is of an older term; and says whether other models are refused than before.
func (b *Board) hearLeader(a wire.RelayAnswer, at time.Duration) (taken, others bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.word.known && a.Stamp.Term < b.word.stamp.Term {
		return false, false
	}
	w := word{known: true, at: at, stamp: a.Stamp, interval: a.Interval, observed: b.word.observed}
	if a.Observed != nil {
		w.observed = *a.Observed
		w.observed.Idle, w.observed.Nodes = nil, nil // the mirror's
	}
	others = !slices.Equal(refusedModels(w.observed.Refusals), refusedModels(b.word.observed.Refusals))
	b.word = w
	return true, others
}

// Relay takes what a follower held. Only the leader can; elsewhere the error is fleet.NoLeader.
func (b *Board) Relay(r wire.Relay) (wire.RelayAnswer, error) {
	t, err := b.leading("a relay of heartbeats")
	if err != nil {
		return wire.RelayAnswer{}, err
	}
	state, now := b.State(), b.Clock()
	for _, h := range r.Heartbeats {
		node, ok := state.Node(h.Heartbeat.Node)
		if ok && registered(node, h.Heartbeat) {
			t.hear(now, h.Heartbeat, seconds(h.HeldSeconds))
		}
	}
	t.hearPeer(now, r)
	observed, have := t.news(now, r.Have)
	return wire.RelayAnswer{
		Stamp:    t.Ledger.Stamp(now),
		Interval: fleet.Duration(idle.Interval(state.NodeCount())),
		Observed: &observed,
		Have:     have,
	}, nil
}

// seconds reads an age off the wire; what cannot be an age is none.
func seconds(s float64) time.Duration {
	if !(s > 0 && s < 1e9) {
		return 0
	}
	return time.Duration(s * float64(time.Second))
}
