package peer

import (
	"context"
	"time"

	"berth/admin/client"
)

const (
	// handOverWait bounds the handing over of leadership by a peer that was told to stop. Without it the others elect, which takes a little longer.
	handOverWait = 2 * time.Second
	// partWait bounds the leaving of the cluster.
	partWait   = 10 * time.Second
	leaveEvery = 500 * time.Millisecond
)

// handOver gives leadership away before this peer stops, so that writes go on without an election.
func (p *parts) handOver(ctx context.Context) {
	if !p.core.node.IsLeader() || len(voters(p.core.node.Servers())) < 2 {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, handOverWait)
	defer cancel()
	if p.core.node.Verify(ctx) != nil {
		return // cut off from the others, so there is nothing to hand over
	}
	if err := p.core.node.Transfer(ctx, ""); err != nil {
		p.cfg.Log.Info("stopping without handing leadership over", "reason", err)
	}
}

// leave asks to be taken out of the cluster, as an operator would, and is refused as one would be: where too few would be left that answer. Then
// this peer only stops.
func (p *parts) leave(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, partWait)
	defer cancel()
	log := p.cfg.Log.With("peer", p.cfg.Name)
	others := p.entrance.others()
	if len(others) == 0 {
		log.Warn("stopping without leaving the cluster: no other peer is known")
		return
	}
	c, err := client.New(client.Config{Addrs: others, HTTP: p.entrance.http})
	if err != nil {
		log.Warn("stopping without leaving the cluster", "reason", err)
		return
	}
	p.leaving.Store(true)
	for err = c.RemovePeer(ctx, p.cfg.Name); err != nil && ctx.Err() == nil; { // a leader that has only just begun knows too little of the others
		pause(ctx, leaveEvery)
		err = c.RemovePeer(ctx, p.cfg.Name)
	}
	if err != nil {
		p.leaving.Store(false)
		log.Warn("stopping without leaving the cluster", "reason", err)
		return
	}
	log.Info("has left the cluster; its data directory is of no further use")
}
