package peer

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"berth/fleet"
	"berth/fleet/wire"
	"berth/fsm"
)

// page is what one comparison of two states writes down.
type page struct {
	by     *fsm.Applied // the entry that made the newer state; nil: several did, or a snapshot
	first  bool         // nothing was written down before: what was there already is no change
	now    fleet.Time
	newest fleet.Index
	note   func(wire.Event)
}

// add writes an event down. What an entry did carries its index; anything else was there before it, came with a snapshot, or is told too late to
// say who did it.
func (p *page) add(e wire.Event, changed fleet.Index) {
	e.At, e.Index = p.now, changed.String()
	if p.by != nil && changed == p.newest {
		e.Who, e.Command = p.by.Meta.By, p.by.Kind
		if p.by.Meta.At != 0 {
			e.At = p.by.Meta.At
		}
	}
	p.note(e)
}

func (p *page) compare(was, is *fsm.State) {
	p.cluster(was, is)
	fsm.Diff(was, is, fsm.Changes{
		Model:   func(old, m *fleet.Model) { p.row(is, orNone(old).Changed, orNone(m).Changed, modelEvent(old, m)) },
		Node:    func(old, n *fleet.Node) { p.row(is, orNone(old).Changed, orNone(n).Changed, nodeEvent(old, n)) },
		Replica: func(old, r *fleet.Replica) { p.row(is, orNone(old).Changed, orNone(r).Changed, replicaEvent(old, r)) },
	})
}

func orNone[T any](row *T) *T {
	if row == nil {
		return new(T)
	}
	return row
}

// row writes down what happened to a row, unless it is nothing: after a restore a row is another pointer with the same index. A row that is gone
// went with the newest entry.
func (p *page) row(is *fsm.State, old, changed fleet.Index, e wire.Event) {
	if changed.IsZero() {
		changed = is.Index()
	}
	if e.Text != "" && old != changed && (!p.first || changed == is.Index()) {
		p.add(e, changed)
	}
}

// cluster writes down what there is one of, and which peers there are.
func (p *page) cluster(was, is *fsm.State) {
	say := func(why, format string, args ...any) {
		p.add(wire.Event{Kind: "cluster", Text: fmt.Sprintf(format, args...), Why: why}, is.Index())
	}
	if p.first && (p.by == nil || p.by.Kind != fsm.ClusterCreate{}.Kind()) {
		p.note(wire.Event{At: p.now, Kind: "cluster", Text: "this peer begins with a state that others made, at " + is.Index().String()})
		return
	}
	switch old, f := was.Freeze(), is.Freeze(); {
	case f != nil && (old == nil || *old != *f):
		say(f.Reason, "frozen")
	case f == nil && old != nil:
		say("", "thawed")
	}
	if d := settingsDiff(was.Settings(), is.Settings()); d != "" {
		say("", "settings: %s", d)
	}
	old, c := was.Cluster(), is.Cluster()
	switch {
	case old.ID != c.ID:
		say("", "the cluster is %s", c.ID)
	case old.Epoch != c.Epoch:
		say("a state was restored", "epoch %d begins", c.Epoch)
	case old.Level != c.Level:
		say("", "level %d", c.Level)
	}
	for s := range is.Servers() {
		if have, ok := was.Server(s.ID); !ok || *have != *s {
			say("", "peer %s answers at %s, release %s", s.ID, s.HTTP, orDash(s.Version))
		}
	}
	for s := range was.Servers() {
		if _, ok := is.Server(s.ID); !ok {
			say("", "peer %s is forgotten", s.ID)
		}
	}
}

// settingsDiff says which settings differ, under the names that operators know them by.
func settingsDiff(was, is fleet.Settings) string {
	if was == is { // what nearly every entry finds
		return ""
	}
	old, now := fields(was), fields(is)
	var out []string
	for _, name := range slices.Sorted(maps.Keys(now)) {
		if old[name] != now[name] {
			out = append(out, fmt.Sprintf("%s %v, before %v", name, now[name], orDash(fmt.Sprint(old[name]))))
		}
	}
	return strings.Join(out, ", ")
}

func fields(s fleet.Settings) map[string]any {
	out := map[string]any{}
	if data, err := json.Marshal(s); err == nil {
		_ = json.Unmarshal(data, &out) // what was just written
	}
	return out
}

func orDash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

func modelEvent(old, m *fleet.Model) wire.Event {
	if m == nil {
		return wire.Event{Kind: "model", Model: old.Name(), Text: "gone"}
	}
	return wire.Event{Kind: "model", Model: m.Name(), Text: modelText(old, m)}
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

func nodeEvent(old, n *fleet.Node) wire.Event {
	if n == nil {
		return wire.Event{Kind: "node", Node: old.Name, Text: "forgotten"}
	}
	e := wire.Event{Kind: "node", Node: n.Name}
	switch {
	case old == nil:
		e.Text = fmt.Sprintf("registered with %d GPUs", len(n.Inventory.GPUs))
	case n.State() != old.State():
		e.Text, e.Why = "is "+string(n.State()), n.AdminReason
		if n.Unreachable {
			e.Why = n.UnreachableReason
		}
	case n.Instance != old.Instance:
		e.Text = "registered again"
	case drainOf(old) != drainOf(n):
		e.Text = "drain " + strings.ReplaceAll(drainOf(n), "_", " ")
	case sick(old) != sick(n):
		e.Text = fmt.Sprintf("%d of %d GPUs healthy, before %d", len(n.Inventory.GPUs)-sick(n), len(n.Inventory.GPUs), len(old.Inventory.GPUs)-sick(old))
	}
	return e
}

func drainOf(n *fleet.Node) string {
	if n.Drain == nil {
		return ""
	}
	return n.Drain.State
}

// sick counts a node's cards that are not known to be healthy.
func sick(n *fleet.Node) int {
	bad := 0
	for _, g := range n.Inventory.GPUs {
		if g.Health != fleet.Healthy {
			bad++
		}
	}
	return bad
}

func replicaEvent(old, r *fleet.Replica) wire.Event {
	if r == nil {
		e := aboutReplica(old)
		e.Text = "ended, its cards are free"
		return e
	}
	e := aboutReplica(r)
	switch {
	case old == nil:
		e.Text = "placed"
	case r.State != old.State, r.Reason != old.Reason && r.Reason != "": // a withdrawn stop may have come and gone between two looks
		e.Text, e.Why = string(r.State), r.Reason
		if e.Why == "" && r.Drain != nil {
			e.Why = r.Drain.Reason
		}
	case r.Restarts != old.Restarts || r.Start != old.Start:
		e.Text = fmt.Sprintf("start %d, %d restarts", r.Start, r.Restarts)
	case !slices.Equal(r.Marks, old.Marks) && len(r.Marks) > 0:
		e.Text = strings.Join(r.Marks, ", ")
	}
	return e
}

func aboutReplica(r *fleet.Replica) wire.Event {
	e := wire.Event{Kind: "replica", Replica: r.ID, Model: r.Model}
	for _, s := range r.Shards {
		e.Nodes = append(e.Nodes, s.Node)
	}
	if len(e.Nodes) > 0 {
		e.Node = e.Nodes[0]
	}
	if len(e.Nodes) == 1 {
		e.Nodes = nil
	}
	return e
}
