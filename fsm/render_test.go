package fsm

import (
	"fmt"
	"iter"
	"strings"

	"berth/fleet"
)

// outcomeLines says how a command went.
func outcomeLines(o Outcome) []string {
	head := o.Index.String()
	switch {
	case o.Err != nil:
		return []string{head + " refused, " + string(o.Err.Code) + ": " + o.Err.Error()}
	case o.Items == nil && !o.Changed:
		return []string{head + " nothing changed"}
	case o.Items == nil:
		return []string{head + " done"}
	}
	var out []string
	for i, err := range o.Items {
		if err != nil {
			out = append(out, fmt.Sprintf("%s item %d refused, %s: %s", head, i+1, err.Code, err))
			continue
		}
		out = append(out, fmt.Sprintf("%s item %d done", head, i+1))
	}
	return out
}

// changes lists the rows that differ between two states, as one line each.
func changes(a, b *State) []string {
	var out []string
	if coreLine(a) != coreLine(b) {
		out = append(out, coreLine(b))
	}
	out = append(out, rowChanges("server", a.servers, b.servers, serverLine)...)
	out = append(out, rowChanges("model", a.models, b.models, modelLine)...)
	out = append(out, rowChanges("node", a.nodes, b.nodes, nodeLine)...)
	return append(out, rowChanges("replica", a.replicas, b.replicas, replicaLine)...)
}

func rowChanges[T any](what string, a, b table[T], show func(*T) string) []string {
	var out []string
	for k := range a.all() {
		if _, ok := b.get(k); !ok {
			out = append(out, what+" "+k+" is gone")
		}
	}
	for k, row := range b.all() {
		if old, ok := a.get(k); !ok || show(old) != show(row) {
			out = append(out, what+" "+k+": "+show(row))
		}
	}
	return out
}

func coreLine(s *State) string {
	c := s.core
	line := fmt.Sprintf("cluster %s epoch %d level %d, node grace %s", c.Cluster.ID, c.Cluster.Epoch, c.Cluster.Level, c.Settings.NodeGrace)
	if c.Freeze != nil {
		line += fmt.Sprintf(", frozen: %s", c.Freeze.Reason)
	}
	return line
}

func serverLine(s *fleet.Server) string {
	return fmt.Sprintf("http %s raft %s understands level %d", s.HTTP, s.Raft, s.MaxLevel)
}

func modelLine(m *fleet.Model) string {
	p := m.Spec.Placement
	shape := fmt.Sprintf("%d×%d GPUs", p.Nodes, p.GPUsPerNode)
	if p.GPUShare > 0 {
		shape = p.GPUShare.String() + " of a GPU"
	}
	line := fmt.Sprintf("generation %d, %s, %d to %d, wants %d, changed %s", m.Generation, shape, m.Spec.Replicas.Min, m.Spec.Replicas.Max, m.Want, m.Changed)
	if len(m.Spec.Aliases) > 0 {
		line += ", also " + strings.Join(m.Spec.Aliases, " ")
	}
	if m.Paused {
		line += ", rollout paused"
	}
	if m.Deleting {
		line += ", being deleted"
	}
	return line
}

func nodeLine(n *fleet.Node) string {
	line := fmt.Sprintf("%s, instance %d at %s, fabric %q, GPUs", n.State(), n.Instance, n.Address, n.Fabric())
	for _, g := range n.Inventory.GPUs {
		line += " " + g.UUID
		if g.Health != fleet.Healthy {
			line += "(" + string(g.Health) + ")"
		}
	}
	if n.UnreachableReason != "" {
		line += fmt.Sprintf(", since %s: %s", n.UnreachableAt.Std().Format("15:04:05"), n.UnreachableReason)
	}
	if n.Drain != nil {
		line += fmt.Sprintf(", drain %s of %s", n.Drain.State, n.Drain.Started)
	}
	for _, u := range n.Unmanaged {
		line += fmt.Sprintf(", unmanaged %q on %s", u.What, strings.Join(u.GPUs, " "))
	}
	return line
}

func replicaLine(r *fleet.Replica) string {
	line := fmt.Sprintf("%s, %s generation %d, start %d, order %s", r.State, r.Model, r.Generation, r.Start, r.Order)
	for _, s := range r.Shards {
		line += ", " + shardText(s)
	}
	if r.Restarts > 0 {
		line += fmt.Sprintf(", %d restarts", r.Restarts)
	}
	if r.Door != nil {
		line += ", door " + r.Door.Address
	}
	if r.Master != "" {
		line += ", master " + r.Master
	}
	if r.Reason != "" {
		line += fmt.Sprintf(", %q", r.Reason)
	}
	if d := r.Drain; d != nil {
		line += fmt.Sprintf(", drain[min %s deadline %s", d.Minimum, d.Deadline)
		if d.Mark != nil {
			line += fmt.Sprintf(" if still at %d", d.Mark.Admissions)
		}
		if d.DoorShut {
			line += " shut"
		}
		if d.Failed != "" {
			line += " fails"
		}
		line += "]"
	}
	if len(r.Marks) > 0 {
		line += ", MARKED " + strings.Join(r.Marks, ", ")
	}
	return line
}

func shardText(s fleet.Shard) string {
	var gpus []string
	for _, c := range s.Claims {
		g := c.GPU
		if c.Share > 0 {
			g += "*" + c.Share.String()
		}
		gpus = append(gpus, g)
	}
	text := s.Node + "[" + strings.Join(gpus, " ") + "]"
	if s.Released {
		text += " released"
	}
	if s.Exit != nil {
		text += fmt.Sprintf(" exit %d", s.Exit.Code)
	}
	return text
}

func (s *script) orders(node string) []string {
	st := s.m.State()
	out := []string{fmt.Sprintf("changed at %s", st.OrdersIndex(node))}
	for _, o := range st.Orders(node) {
		line := fmt.Sprintf("%s %s %s rank %d of %s generation %d (args %v), start %d, ranks", o.ID, o.Action, o.Replica, o.Rank, o.Model, o.Generation, o.Spec.Engine.Args, o.Start)
		for _, r := range o.Ranks {
			line += fmt.Sprintf(" %s(%d)", r.Host, r.GPUs)
		}
		if o.Master != "" {
			line += " meet at " + o.Master
		}
		if o.Drain != nil {
			line += fmt.Sprintf(", because %q, shut %v", o.Drain.Reason, o.Drain.DoorShut)
		}
		out = append(out, line)
	}
	return out
}

func (s *script) table() []string {
	st := s.m.State()
	out := []string{fmt.Sprintf("changed at %s", st.TableIndex())}
	for _, m := range st.Table() {
		out = append(out, fmt.Sprintf("%s generation %d max %d", strings.Join(append([]string{m.Name}, m.Aliases...), " "), m.Generation, m.Max))
		for _, e := range m.Endpoints {
			line := fmt.Sprintf("  %s %s on %s at %s", e.Replica, e.State, e.Node, e.Address)
			if e.Lost {
				line += ", lost"
			}
			if e.Conditional {
				line += ", conditional"
			}
			out = append(out, line)
		}
	}
	return out
}

func (s *script) claims(node string) []string {
	st := s.m.State()
	n, _ := st.Node(node)
	var out []string
	for _, g := range n.Inventory.GPUs {
		out = append(out, g.UUID+": "+strings.Join(claimTexts(st.Claims(node, g.UUID)), ", "))
	}
	return out
}

func claimTexts(claims iter.Seq2[string, fleet.Bytes]) []string {
	var out []string
	for r, share := range claims {
		out = append(out, amount(share)+" by "+r)
	}
	if out == nil {
		return []string{"free"}
	}
	return out
}
