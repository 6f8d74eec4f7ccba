package consensus

import (
	"context"
	"net"
	"time"

	"berth/fleet"
)

// What peers ask each other on the raft port beside raft. Each is a request frame and an answer frame; a connection may
// carry several in turn.
const (
	kindProbe   = "probe"   // who are you?
	kindPromise = "promise" // will you be in this cluster? See bootstrap.go.
	kindJoin    = "join"    // take me as a non-voter; for the leader
	kindAsk     = "ask"     // how far has the cluster committed? See knowledge.go.
)

// callIdle ends a call connection on which nothing is asked.
const callIdle = time.Minute

type request struct {
	Kind    string     `json:"kind"`
	Promise *Promise   `json:"promise,omitempty"`
	Join    *Candidate `json:"join,omitempty"`
}

type reply struct {
	Error *fleet.Error `json:"error,omitempty"`
	Body  any          `json:"body,omitempty"`
}

// PeerInfo is what a peer says of itself to anyone who reaches its raft port.
type PeerInfo struct {
	ID            string   `json:"id"`
	Address       string   `json:"address"`
	Cluster       string   `json:"cluster,omitempty"` // empty: in none yet
	Promise       *Promise `json:"promise,omitempty"`
	Leader        string   `json:"leader,omitempty"`
	LeaderAddress string   `json:"leader_address,omitempty"`
	Instance      string   `json:"instance,omitempty"` // of this start: one process has one, whatever address it is reached at
}

// serveCalls answers on one connection until it ends.
func (n *Node) serveCalls(ctx context.Context, conn net.Conn, from hello) {
	for ctx.Err() == nil {
		_ = conn.SetDeadline(time.Now().Add(callIdle))
		var q request
		if readFrame(conn, &q) != nil {
			return
		}
		body, err := n.answer(ctx, q, from)
		if writeFrame(conn, reply{Error: fleet.AsError(err), Body: body}) != nil {
			return
		}
	}
}

func (n *Node) answer(ctx context.Context, q request, from hello) (any, error) {
	switch {
	case q.Kind == kindProbe:
		return n.info(), nil
	case q.Kind == kindAsk:
		return n.answerProgress(from.From), nil
	case q.Kind == kindPromise && q.Promise != nil:
		return struct{}{}, n.promise(*q.Promise, from.From)
	case q.Kind == kindJoin && q.Join != nil:
		if q.Join.ID != from.From {
			return nil, fleet.Errorf(fleet.Forbidden, "peer %s asks for peer %s to join", from.From, q.Join.ID)
		}
		return n.info(), n.admitNew(ctx, *q.Join)
	}
	return nil, fleet.Errorf(fleet.BadRequest, "unknown request %q", q.Kind)
}

// admitNew takes a peer that belongs to no cluster. One that has a vote here has lost its disk, and with it what it voted and acknowledged: it may
// not pass for the peer that it was.
func (n *Node) admitNew(ctx context.Context, c Candidate) error {
	if s, err := find(n.Servers(), c.ID); err == nil && s.Voter {
		return fleet.Errorf(fleet.DuplicateID, "peer %s has a vote in this cluster, and comes with an empty data directory", c.ID).
			WithHint("give it back its data directory; or, if that is lost, remove it with berthctl peer remove %s and let it join anew", c.ID)
	}
	return n.AddNonvoter(ctx, c.ID, c.Address, false)
}

func (n *Node) info() PeerInfo {
	me := n.me.get()
	addr, id := n.raft.LeaderWithID()
	return PeerInfo{
		ID: me.ID, Address: n.port.addr.String(), Cluster: me.Cluster, Promise: me.Promise,
		Leader: string(id), LeaderAddress: string(addr), Instance: n.me.instance,
	}
}

// call asks one thing of one peer.
func (n *Node) call(ctx context.Context, to Candidate, q request, a any) error {
	ctx, cancel := context.WithTimeout(ctx, n.cfg.Timings.Wait)
	defer cancel()
	conn, _, err := n.port.dial(ctx, kindCall, to)
	if err != nil {
		return err
	}
	defer conn.Close()
	return exchange(ctx, conn, q, a)
}

// Probe asks who answers at a raft address. An empty id takes anyone.
func (n *Node) Probe(ctx context.Context, at Candidate) (PeerInfo, error) {
	ctx, cancel := context.WithTimeout(ctx, dialWait)
	defer cancel()
	var info PeerInfo
	err := n.call(ctx, at, request{Kind: kindProbe}, &info)
	return info, err
}
