package peer

import (
	"context"
	"fmt"
	"iter"
	"time"

	"berth/fleet"
	"berth/fleet/wire"
	"berth/fsm"
)

// historyPace is how long changes are collected before they are written down: a look at all rows for each of a thousand changes a second would
// be most of what a peer does.
const historyPace = 50 * time.Millisecond

// history writes down what changes in the state, by comparing each state with the one before. It sees what became of the entries and not the
// entries themselves, so it is true after a snapshot was installed, too.
type history struct {
	state func() *fsm.State
	note  func(wire.Event)
}

func (h *history) run(ctx context.Context) error {
	was := h.state()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-was.Watch():
		}
		pause(ctx, historyPace)
		is := h.state()
		h.compare(was, is)
		was = is
	}
}

func (h *history) compare(was, is *fsm.State) {
	at := fleet.TimeOf(time.Now())
	add := func(e wire.Event, changed fleet.Index) {
		e.At, e.Index = at, changed.String()
		h.note(e)
	}
	changes(is.Models(), was.Model, (*fleet.Model).Name, func(old, m *fleet.Model) {
		add(wire.Event{Kind: "model", Model: m.Name(), Text: modelText(old, m)}, m.Changed)
	})
	gone(was.Models(), is.Model, (*fleet.Model).Name, func(m *fleet.Model) {
		add(wire.Event{Kind: "model", Model: m.Name(), Text: "gone"}, is.Index())
	})
	changes(is.Nodes(), was.Node, nodeName, func(old, n *fleet.Node) {
		if text := nodeText(old, n); text != "" {
			add(wire.Event{Kind: "node", Node: n.Name, Text: text}, n.Changed)
		}
	})
	gone(was.Nodes(), is.Node, nodeName, func(n *fleet.Node) {
		add(wire.Event{Kind: "node", Node: n.Name, Text: "forgotten"}, is.Index())
	})
	changes(is.Replicas(), was.Replica, replicaID, func(old, r *fleet.Replica) {
		if text := replicaText(old, r); text != "" {
			add(wire.Event{Kind: "replica", Replica: r.ID, Model: r.Model, Node: r.Shards[0].Node, Text: text}, r.Changed)
		}
	})
	gone(was.Replicas(), is.Replica, replicaID, func(r *fleet.Replica) {
		add(wire.Event{Kind: "replica", Replica: r.ID, Model: r.Model, Node: r.Shards[0].Node, Text: "ended, its cards are free"}, is.Index())
	})
}

func nodeName(n *fleet.Node) string     { return n.Name }
func replicaID(r *fleet.Replica) string { return r.ID }

// changes calls fn for each row that is new (old is nil) or another than before. Rows are never written to, so the same row has one address.
func changes[T any](rows iter.Seq[*T], before func(string) (*T, bool), name func(*T) string, fn func(old, row *T)) {
	for row := range rows {
		if old, ok := before(name(row)); !ok {
			fn(nil, row)
		} else if old != row {
			fn(old, row)
		}
	}
}

func gone[T any](rows iter.Seq[*T], now func(string) (*T, bool), name func(*T) string, fn func(*T)) {
	for row := range rows {
		if _, ok := now(name(row)); !ok {
			fn(row)
		}
	}
}

func modelText(old, m *fleet.Model) string {
	switch {
	case old == nil:
		return fmt.Sprintf("created, %d wanted", m.Want)
	case m.Deleting && !old.Deleting:
		return "is being deleted"
	case m.Generation != old.Generation:
		return fmt.Sprintf("generation %d", m.Generation)
	case m.Want != old.Want:
		return fmt.Sprintf("%d wanted, before %d", m.Want, old.Want)
	}
	return "changed"
}

func nodeText(old, n *fleet.Node) string {
	switch {
	case old == nil:
		return fmt.Sprintf("registered with %d GPUs", len(n.Inventory.GPUs))
	case n.State() != old.State():
		text := "is " + string(n.State())
		if n.AdminReason != "" && !n.Unreachable {
			text += ": " + n.AdminReason
		}
		return text
	case n.Instance != old.Instance:
		return "registered again"
	}
	return ""
}

func replicaText(old, r *fleet.Replica) string {
	text := string(r.State)
	switch {
	case r.Reason != "":
		text += ": " + r.Reason
	case r.Drain != nil && r.Drain.Reason != "":
		text += ": " + r.Drain.Reason
	}
	switch {
	case old == nil:
		return "placed"
	case r.State != old.State, r.Reason != old.Reason && r.Reason != "": // a withdrawn stop may have come and gone between two looks
		return text
	case r.Restarts != old.Restarts || r.Start != old.Start:
		return fmt.Sprintf("start %d, %d restarts", r.Start, r.Restarts)
	}
	return ""
}
