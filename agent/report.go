package agent

import (
	"berth/agent/shim"
	"berth/fleet"
	"berth/fleet/wire"
)

// said is what was reported of a shard, so that each step of its life is reported once.
type said struct {
	steps map[string]milestone // by what it became
	// lived says that the status before the present one is known: only then is a new exit told from one that an earlier life of the agent reported.
	lived    bool
	restarts int
	exit     fleet.Time
}

// milestone tells one step in a life from the next of its kind.
type milestone struct {
	order    fleet.Index
	start    uint64
	shim     uint64
	engine   uint64 // within the shim
	restarts int
	exit     fleet.Time
	door     fleet.Door
	master   string
}

func newSaid() said { return said{steps: make(map[string]milestone)} }

// report turns a status into the transitions that it implies. A status is a level: what happened between two looks is told from its counters.
func (k *keeper) report(st shim.Status, o wire.Order) {
	rank := k.rank(o)
	if st.Withdrawn && rank == 0 {
		k.once(wire.BecameWithdrawn, milestone{order: st.Order}, st, rank)
	}
	if k.exited(st) {
		k.say(wire.BecameExited, st, rank)
	}
	k.said.lived, k.said.restarts, k.said.exit = true, st.Restarts, exitAt(st)
	switch st.Phase {
	case shim.Starting:
		if rank == 0 && st.Master == "" && k.gang() {
			break // it is about to say where the ranks meet; without that the others cannot start
		}
		m := milestone{order: st.Order, start: st.Start, restarts: st.Restarts, exit: exitAt(st), master: st.Master}
		if st.Door != nil {
			m.door = *st.Door
		}
		k.once(wire.BecameStarting, m, st, rank)
	case shim.Ready:
		if rank == 0 { // it has had a token from the whole gang; the other ranks have nothing to add
			k.once(wire.BecameReady, milestone{order: st.Order, start: st.Start, engine: st.Engine}, st, rank)
		}
	case shim.Exited:
		k.once(wire.BecameExited, milestone{order: st.Order, start: st.Start, engine: st.Engine}, st, rank)
	case shim.Failed:
		k.once(wire.BecameFailed, milestone{order: st.Order, start: st.Start}, st, rank)
	case shim.Stuck:
		st.Reason = "stuck: " + st.Reason
		k.once(wire.BecameFailed, milestone{order: st.Order, start: st.Start, engine: st.Engine}, st, rank)
	case shim.Draining, shim.Stopping, shim.Stopped:
	}
	if st.DoorShut && rank == 0 && o.Action == wire.ActionStop && st.Phase != shim.Failed {
		k.once(wire.BecameShut, milestone{order: st.Order}, st, rank)
	}
}

func (k *keeper) rank(o wire.Order) int {
	switch {
	case o.Replica != "":
		return o.Rank
	case k.dead != nil:
		return k.dead.Launch.Order.Rank
	}
	if h := k.view().handle; h != nil {
		return h.Launch().Order.Rank
	}
	return 0
}

// exited says that a single-node engine ended by itself since the last look, and that its shim starts it again. The exit of a gang's rank is a
// phase of its own.
func (k *keeper) exited(st shim.Status) bool {
	at := exitAt(st)
	return k.said.lived && at != 0 && (at != k.said.exit || st.Restarts > k.said.restarts) && st.Phase != shim.Exited && !k.gang()
}

func (k *keeper) gang() bool {
	v := k.view()
	switch {
	case v.handle != nil:
		return v.handle.Launch().Gang()
	case k.dead != nil:
		return k.dead.Launch.Gang()
	}
	return len(v.order.Ranks) > 1
}

func exitAt(st shim.Status) fleet.Time {
	if st.Exit == nil {
		return 0
	}
	return st.Exit.At
}

func (k *keeper) once(to string, m milestone, st shim.Status, rank int) {
	m.shim = st.Shim
	if last, ok := k.said.steps[to]; ok && last == m {
		return
	}
	k.said.steps[to] = m
	k.say(to, st, rank)
}

func (k *keeper) say(to string, st shim.Status, rank int) {
	k.outbox.add(k.transition(to, st, rank), nil)
}

// sayStopped reports the end, with the cards proved empty. The keeper goes on to forget the shard when it is answered.
func (k *keeper) sayStopped(st shim.Status, o wire.Order) {
	m := milestone{order: o.ID}
	if last, ok := k.said.steps[wire.BecameStopped]; ok && last == m {
		return
	}
	k.said.steps[wire.BecameStopped] = m
	t := k.transition(wire.BecameStopped, st, o.Rank)
	t.Order, t.Start, t.Released, t.Cut = o.ID, o.Start, true, st.Cut
	k.outbox.add(t, func() {
		k.mu.Lock()
		defer k.mu.Unlock()
		k.ended = k.order.ID == o.ID && k.order.Action == o.Action // another order may have come: then that one is to be answered
		wake(k.poke)
	})
}

func (k *keeper) transition(to string, st shim.Status, rank int) wire.Transition {
	t := wire.Transition{Replica: k.replica, Rank: rank, Order: st.Order, Start: st.Start, To: to, Shim: st.Shim}
	switch to {
	case wire.BecameStarting:
		t.Door, t.Master, t.Restarts, t.Exit, t.Reason = st.Door, st.Master, st.Restarts, st.Exit, st.Reason
	case wire.BecameReady:
		t.Door, t.Restarts = st.Door, st.Restarts
	case wire.BecameExited, wire.BecameFailed:
		t.Restarts, t.Exit, t.Reason = st.Restarts, st.Exit, st.Reason
	case wire.BecameStopped:
		t.Exit, t.Reason = st.Exit, st.Reason
	}
	if rank > 0 {
		t.Door, t.Master = nil, ""
	}
	return t
}
