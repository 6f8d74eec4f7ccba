package status

import (
	"iter"
	"maps"
	"slices"
	"time"

	"berth/fleet"
	"berth/fleet/wire"
)

// Summarize computes the status document of an input, every row counted anew.
func Summarize(in Input) wire.Status {
	t := in.tally()
	return t.Summarize(in.frame(), in.word(t))
}

func (in *Input) frame() Frame {
	return Frame{
		Cluster: in.Cluster, Peer: in.Peer, Leader: in.Leader, Index: in.Index, KnowledgeAge: in.KnowledgeAge, CaughtUp: in.CaughtUp,
		Frozen: in.Frozen, Brake: in.Brake,
	}
}

func (in *Input) word(t *Tally) Word {
	return Word{
		Known: in.Leader != "", Refusals: in.Refusals, Silent: in.silent(),
		IdleReplicas: t.IdleReplicas(maps.All(in.Idle), in.Settings.IdleThreshold.Std()),
	}
}

// tally counts every row of the input.
func (in *Input) tally() *Tally {
	rows, all := newRows(in), Changes{}
	for _, m := range in.Models {
		all.Models = append(all.Models, m.Name())
	}
	for _, n := range in.Nodes {
		all.Nodes = append(all.Nodes, n.Name)
	}
	for _, r := range in.Replicas {
		all.Replicas = append(all.Replicas, r.ID)
	}
	t := NewTally()
	t.Update(rows, all)
	return t
}

// rows are tables made of an input's lists.
type rows struct {
	models   map[string]*fleet.Model
	nodes    map[string]*fleet.Node
	replicas map[string]*fleet.Replica
	on       map[string][]*fleet.Replica
}

func newRows(in *Input) rows {
	r := rows{map[string]*fleet.Model{}, map[string]*fleet.Node{}, map[string]*fleet.Replica{}, map[string][]*fleet.Replica{}}
	for _, m := range in.Models {
		r.models[m.Name()] = m
	}
	for _, n := range in.Nodes {
		r.nodes[n.Name] = n
	}
	for _, rep := range in.Replicas {
		r.replicas[rep.ID] = rep
		for _, s := range rep.Shards {
			r.on[s.Node] = append(r.on[s.Node], rep)
		}
	}
	return r
}

func (r rows) Model(name string) (*fleet.Model, bool)          { m, ok := r.models[name]; return m, ok }
func (r rows) Node(name string) (*fleet.Node, bool)            { n, ok := r.nodes[name]; return n, ok }
func (r rows) Replica(id string) (*fleet.Replica, bool)        { x, ok := r.replicas[id]; return x, ok }
func (r rows) ReplicasOn(node string) iter.Seq[*fleet.Replica] { return slices.Values(r.on[node]) }

// silent names who has not been heard for longer than it should. An observer that has only begun to listen calls nobody silent.
func (in *Input) silent() wire.Silent {
	s := wire.Silent{Agents: make([]string, 0), Routers: make([]string, 0)}
	for _, n := range in.Nodes {
		age, heard := in.Heartbeats[n.Name]
		if !heard {
			age = in.Listening
		}
		if age > in.silentAgent() {
			s.Agents = append(s.Agents, n.Name)
		}
	}
	for _, r := range in.Routers {
		if r.Age > silentRouter {
			s.Routers = append(s.Routers, r.Report.Router)
		}
	}
	slices.Sort(s.Routers)
	return s
}

// silentAgent is the age of a heartbeat from which its agent is called silent: one heartbeat lost, another late, and the ticks on the way.
func (in *Input) silentAgent() time.Duration { return 2*max(in.Interval, tick) + 3*tick }
