package main

import (
	"context"
	"encoding/json"
	"math/rand/v2"
	"time"

	"berth/fleet"
	"berth/fleet/wire"
	"berth/fsm"
	"berth/idle"
)

// every calls fn so many times a second until the context ends. What it could not do in time it makes up for, so that the rate is kept.
func every(ctx context.Context, rate int, fn func(i int) error) error {
	began := time.Now()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for done := 0; ; {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		for due := int(time.Since(began).Seconds() * float64(rate)); done < due && ctx.Err() == nil; done++ {
			if err := fn(done); err != nil {
				return err
			}
		}
	}
}

// update commits one change of a random node: its inventory with another health of a card, a step in the life of a replica, or its admin state.
func (r *rig) update(i int) error {
	r.at = fleet.TimeOf(time.Now())
	node := rand.IntN(r.nodes)
	row, _ := r.machine.State().Node(nodeName(node))
	switch {
	case i%10 == 0 && row.Admin == fleet.Schedulable:
		return r.apply(fsm.NodeAdmin{Node: row.Name, Admin: fleet.Cordoned, Reason: "bench"})
	case i%10 == 0 || row.Admin == fleet.Cordoned && i%2 == 0:
		return r.apply(fsm.NodeAdmin{Node: row.Name, Admin: fleet.Schedulable})
	case i%2 == 0:
		health := fleet.Healthy
		if row.Inventory.GPUs[cardsPerNode-1].Health == fleet.Healthy && rand.IntN(20) == 0 {
			health = fleet.Unhealthy
		}
		reg := registration(node, health)
		reg.Inventory.Note = time.Now().String()
		return r.apply(fsm.NodeRegister{Registration: reg})
	}
	for x := range r.machine.State().ReplicasOn(row.Name) {
		to := wire.BecameStarting
		if x.State == fleet.Starting {
			to = wire.BecameReady
		}
		if rand.IntN(replicasPerNode) == 0 || to == wire.BecameReady {
			t := step(x, to)
			t.Restarts = x.Restarts + 1
			return r.apply(fsm.ReplicaTransitions{Node: row.Name, Instance: 1, Items: []wire.Transition{t}})
		}
	}
	return nil
}

// heartbeat is one agent's: its doors were used a moment ago, but for one replica in a hundred that nobody has asked for.
func (r *rig) heartbeat(i int, stamp *wire.Stamp) wire.Heartbeat {
	node := i % r.nodes
	round := uint64(i/r.nodes) + 1
	h := wire.Heartbeat{Version: wire.Version, Node: nodeName(node), ID: registration(node, fleet.Healthy).ID, Instance: 1, Seq: round}
	n := 0
	for x := range r.machine.State().ReplicasOn(h.Node) {
		age, ready := 3.0, 86_400.0
		rd := wire.Reading{Replica: x.ID, Shim: 1, Engine: 1, Number: round, ReadyAge: &ready, Stamp: stamp}
		if (node*replicasPerNode+n)%100 != 0 {
			rd.UseAge = &age
		}
		h.Readings = append(h.Readings, rd)
		n++
	}
	return h
}

// beat sends heartbeats to the leader at the rate at which a fleet of this size does: each node once in H.
func (r *rig) beat(ctx context.Context) error {
	rate := int(float64(r.nodes) / idle.Interval(r.nodes).Seconds())
	stamp := r.leader.Heartbeat(r.heartbeat(0, nil)).Stamp
	for i := range r.nodes { // one round, so that every door is known
		stamp = r.leader.Heartbeat(r.heartbeat(i+r.nodes, stamp)).Stamp
	}
	return every(ctx, rate, func(i int) error {
		stamp = r.leader.Heartbeat(r.heartbeat(i+2*r.nodes, stamp)).Stamp
		return nil
	})
}

// relay gives the follower once a tick what the leader has observed, as bytes on a wire.
func (r *rig) relay(ctx context.Context) error {
	return every(ctx, 1, func(int) error {
		began := time.Now()
		answer, err := r.leader.Relay(r.follower.Outgoing(nil))
		if err != nil {
			return err
		}
		data, err := json.Marshal(answer)
		if err != nil {
			return err
		}
		var heard wire.RelayAnswer
		if err := json.Unmarshal(data, &heard); err != nil {
			return err
		}
		r.follower.Delivered(heard, time.Since(began))
		return nil
	})
}
