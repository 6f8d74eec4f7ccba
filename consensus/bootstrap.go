package consensus

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/raft"

	"berth/fleet"
	"berth/internal/durable"
)

// Bootstrap: how exactly one cluster comes of several empty peers.
//
// A cluster begins when one peer, the proposer, writes the first configuration into its own log; everyone else gets it
// from there. It may do so only with the promise of each peer named in that configuration, its own included. A peer
// gives one promise at a time, on disk before it answers, and forgets it only when the proposer itself says that it has
// withdrawn. A proposer withdraws, on its own disk first, as soon as any promise is refused or does not come; having
// withdrawn it never begins that cluster. So two clusters that share a peer cannot both begin: the shared peer promised
// itself to the second only after the proposer of the first had given it up.
//
// Who proposes is a matter of speed, not of safety: the lowest id of those that are seen. A crash at any point leaves
// either no promise of the proposer's own (withdrawn), or one that it takes up again under the same cluster id.
//
// A peer that sees a cluster instead asks its leader to be taken as a non-voter. A peer with a cluster never bootstraps
// again.

// bootstrapEvery is the pace at which a peer without a cluster looks around; half of it at random keeps two proposers
// from withdrawing in step.
const bootstrapEvery = 500 * time.Millisecond

// Bootstrap returns when this peer belongs to a cluster. Expect is the number of peers that begin one together; 0 only
// joins one that exists. Candidates gives the peers known at the moment, this one or not. It may grow between calls.
// Its error is that of the context, or one that no waiting mends.
func (n *Node) Bootstrap(ctx context.Context, expect int, candidates func() []Candidate) error {
	if expect < 0 {
		return fmt.Errorf("a cluster of %d peers cannot be bootstrapped", expect)
	}
	n.expect.Store(int64(expect))
	b := &bootstrapper{node: n, expect: expect}
	for n.Cluster() == "" {
		if err := b.step(ctx, candidates()); err != nil {
			return err
		}
		if n.Cluster() != "" {
			break
		}
		pause(ctx, bootstrapEvery/2+rand.N(bootstrapEvery))
		if err := errors.Join(ctx.Err(), n.ctx.Err()); err != nil {
			return fmt.Errorf("peer %s has joined no cluster: %w", n.cfg.ID, err)
		}
	}
	n.cfg.Log.Info("member of a cluster", "peer", n.cfg.ID, "cluster", n.Cluster())
	return nil
}

type bootstrapper struct {
	node   *Node
	expect int
	said   string
}

// say logs what is being waited for, once.
func (b *bootstrapper) say(msg string, args ...any) {
	if text := msg + fmt.Sprint(args...); text != b.said {
		b.said = text
		b.node.cfg.Log.Info("bootstrap: "+msg, args...)
	}
}

// step looks around once and does what can be done.
func (b *bootstrapper) step(ctx context.Context, candidates []Candidate) error {
	n := b.node
	mine := n.me.get().Promise
	if mine != nil {
		candidates = append(slices.Clone(candidates), mine.Peers...)
	}
	seen := b.look(ctx, candidates)
	if mine != nil && mine.Proposer != n.cfg.ID {
		return b.keepPromise(*mine, seen)
	}
	if members := slices.DeleteFunc(slices.Clone(seen), func(p PeerInfo) bool { return p.Cluster == "" }); len(members) > 0 {
		return b.join(ctx, members)
	}
	if b.expect == 0 {
		b.say("waiting for a peer of the cluster to answer", "asked", len(candidates))
		return nil
	}
	blank := []Candidate{{n.cfg.ID, n.Address()}}
	for _, p := range seen {
		blank = append(blank, Candidate{p.ID, p.Address})
	}
	slices.SortFunc(blank, func(a, b Candidate) int { return strings.Compare(a.ID, b.ID) })
	switch {
	case len(blank) < b.expect:
		b.say("waiting for more peers", "expect", b.expect, "seen", len(blank))
	case blank[0].ID != n.cfg.ID:
		b.say("waiting for a lower peer to begin", "peer", blank[0].ID)
	default:
		return b.propose(ctx, blank[:b.expect])
	}
	return nil
}

// look asks every candidate who it is, and gives one answer a peer, this one left out.
func (b *bootstrapper) look(ctx context.Context, candidates []Candidate) []PeerInfo {
	var wg sync.WaitGroup
	var mu sync.Mutex
	seen := map[string]PeerInfo{}
	asked := map[string]bool{b.node.Address(): true}
	for _, c := range candidates {
		if asked[c.Address] || c.ID == b.node.cfg.ID {
			continue
		}
		asked[c.Address] = true
		wg.Go(func() {
			info, err := b.node.Probe(ctx, Candidate{Address: c.Address})
			if err != nil {
				b.node.cfg.Log.Debug("bootstrap: no answer", "address", c.Address, "error", err)
				return
			}
			mu.Lock()
			defer mu.Unlock()
			seen[info.ID] = info
		})
	}
	wg.Wait()
	var all []PeerInfo
	for _, info := range seen {
		all = append(all, info)
	}
	return all
}

// keepPromise finds out from the proposer what became of a promise given to it.
func (b *bootstrapper) keepPromise(p Promise, seen []PeerInfo) error {
	i := slices.IndexFunc(seen, func(info PeerInfo) bool { return info.ID == p.Proposer })
	switch {
	case i < 0:
		b.say("waiting for the peer that has our promise; if it is gone for good, empty this data directory", "peer", p.Proposer)
		return nil
	case seen[i].Cluster == p.Cluster:
		return b.node.me.join(p.Cluster)
	case seen[i].Promise != nil && seen[i].Promise.Cluster == p.Cluster && seen[i].Cluster == "":
		b.say("promised; waiting for the others", "proposer", p.Proposer)
		return nil
	}
	b.say("the proposal was withdrawn", "proposer", p.Proposer)
	return b.node.me.update(func(r *record) error {
		if r.Promise.equal(&p) {
			r.Promise = nil
		}
		return nil
	})
}

// promise answers a proposer.
func (n *Node) promise(p Promise, from string) error {
	if p.Proposer != from || p.Cluster == "" {
		return fleet.Errorf(fleet.BadRequest, "peer %s proposes for %s", from, p.Proposer)
	}
	if want := n.expect.Load(); int64(len(p.Peers)) != want || !slices.Contains(p.Peers, Candidate{n.cfg.ID, n.Address()}) {
		return fleet.Errorf(fleet.NotReady, "peer %s at %s expects a cluster of %d and was asked for one of %v", n.cfg.ID, n.Address(), want, p.Peers).
			WithHint("start all peers with the same --bootstrap-expect")
	}
	return n.me.update(func(r *record) error {
		switch {
		case r.Cluster != "":
			return fleet.Errorf(fleet.WrongCluster, "peer %s belongs to cluster %s", r.ID, r.Cluster)
		case r.Promise != nil && r.Promise.Proposer != p.Proposer:
			return fleet.Errorf(fleet.Conflict, "peer %s has promised itself to peer %s", r.ID, r.Promise.Proposer)
		}
		r.Promise = &p // a new proposal of the same peer: it has given up the one before
		return nil
	})
}

// propose asks for every promise, and begins the cluster if all are given.
func (b *bootstrapper) propose(ctx context.Context, peers []Candidate) error {
	n := b.node
	p := n.me.get().Promise
	if p == nil {
		p = &Promise{Cluster: durable.NewID("c-"), Proposer: n.cfg.ID, Peers: peers}
	}
	if err := n.me.update(func(r *record) error {
		if r.Promise != nil && !r.Promise.equal(p) {
			return fleet.Errorf(fleet.Conflict, "promised to %s meanwhile", r.Promise.Proposer)
		}
		r.Promise = p
		return nil
	}); err != nil {
		b.say("not proposing", "reason", err)
		return nil
	}
	if err := b.collect(ctx, *p); err != nil {
		b.say("withdrawing the proposal", "reason", err)
		return n.me.update(func(r *record) error { r.Promise = nil; return nil })
	}
	return n.begin(*p)
}

// collect asks each peer but this one.
func (b *bootstrapper) collect(ctx context.Context, p Promise) error {
	var wg sync.WaitGroup
	errs := make([]error, len(p.Peers))
	for i, to := range p.Peers {
		if to.ID == p.Proposer {
			continue
		}
		wg.Go(func() {
			ctx, cancel := context.WithTimeout(ctx, helloWait)
			defer cancel()
			errs[i] = b.node.call(ctx, to, request{Kind: kindPromise, Promise: &p}, new(struct{}))
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}

// begin writes the first configuration. After a crash in here the promise of our own is still there, and so perhaps is
// the configuration: settleIdentity makes this peer a member then.
func (n *Node) begin(p Promise) error {
	var c raft.Configuration
	for _, peer := range p.Peers {
		c.Servers = append(c.Servers, raft.Server{ID: raft.ServerID(peer.ID), Address: raft.ServerAddress(peer.Address)})
	}
	if err := n.raft.BootstrapCluster(c).Error(); err != nil {
		return fmt.Errorf("begin cluster %s: %w", p.Cluster, err)
	}
	n.cfg.Log.Info("bootstrap: beginning a cluster", "cluster", p.Cluster, "peers", p.Peers)
	return n.me.join(p.Cluster)
}

// join asks the leader of the cluster seen to take this peer as a non-voter.
func (b *bootstrapper) join(ctx context.Context, members []PeerInfo) error {
	n := b.node
	cluster := members[0].Cluster
	for _, m := range members {
		if m.Cluster != cluster {
			b.say("two clusters answer; remove one of them from --join", "one", members[0], "other", m)
			return nil
		}
	}
	leader := Candidate{members[0].Leader, members[0].LeaderAddress}
	if leader.ID == "" {
		b.say("waiting for the cluster to have a leader", "cluster", cluster)
		return nil
	}
	// A proposal of ours that is still open is given up before we belong elsewhere.
	if err := n.me.update(func(r *record) error { r.Promise = nil; return nil }); err != nil {
		return err
	}
	var info PeerInfo
	me := Candidate{n.cfg.ID, n.Address()}
	if err := n.call(ctx, leader, request{Kind: kindJoin, Join: &me}, &info); err != nil {
		b.say("the cluster does not take this peer", "cluster", cluster, "leader", leader.ID, "error", err)
		return nil
	}
	return n.me.join(cluster)
}
