package scheduler

import (
	"testing"

	"berth/fleet"
)

// checkPlan recounts a plan against DESIGN's invariants by itself, sharing no code with the planner.
func checkPlan(t *testing.T, s Snapshot, plan fleet.Plan) {
	t.Helper()
	c := checker{t: t, s: s, nodes: map[string]*fleet.Node{}, models: map[string]*fleet.Model{}, whole: map[string]int{}, shared: map[string]fleet.Bytes{}}
	for _, n := range s.Nodes {
		c.nodes[n.Name] = n
	}
	for _, m := range s.Models {
		c.models[m.Name()] = m
	}
	for _, r := range s.Replicas {
		c.claim(r.Shards)
	}
	stopped := map[string]bool{}
	for _, item := range plan.Items {
		switch {
		case s.Frozen:
			t.Errorf("a frozen fleet got the item %+v", item)
		case item.Place != nil:
			c.place(item.Place)
		case item.Stop != nil:
			c.stop(item.Stop, stopped)
		}
	}
}

type checker struct {
	t      *testing.T
	s      Snapshot
	nodes  map[string]*fleet.Node
	models map[string]*fleet.Model
	whole  map[string]int
	shared map[string]fleet.Bytes
}

func (c *checker) claim(shards []fleet.Shard) {
	for _, s := range shards {
		for _, claim := range s.Claims {
			switch {
			case s.Released:
			case claim.Share == 0:
				c.whole[s.Node+"/"+claim.GPU]++
			default:
				c.shared[s.Node+"/"+claim.GPU] += claim.Share
			}
		}
	}
}

func (c *checker) place(p *fleet.PlaceItem) {
	c.t.Helper()
	m := c.models[p.Model]
	if m == nil || m.Deleting || p.Generation != m.Generation || len(p.Shards) != m.Spec.Placement.Nodes {
		c.t.Errorf("placement of a model or generation that is not there, or with %d shards: %+v", len(p.Shards), p)
		return
	}
	c.claim(p.Shards)
	classes, fabrics, nodes := map[string]bool{}, map[string]bool{}, map[string]bool{}
	for _, s := range p.Shards {
		n := c.nodes[s.Node]
		if n == nil || n.Unreachable || n.Admin != fleet.Schedulable {
			c.t.Errorf("%s placed on %s, which takes nothing", p.Model, s.Node)
			return
		}
		fabrics[n.Fabric()], nodes[n.Name] = true, true
		for k, v := range m.Spec.Placement.Require {
			if have, _ := n.Label(k); have != v {
				c.t.Errorf("%s placed on %s without %s=%s", p.Model, n.Name, k, v)
			}
		}
		c.cards(m, n, s, classes)
	}
	if len(p.Shards) > 1 && (len(fabrics) != 1 || fabrics[""]) {
		c.t.Errorf("%s spans the fabrics %v", p.Model, fabrics)
	}
	if len(classes) != 1 || len(nodes) != len(p.Shards) {
		c.t.Errorf("%s mixes classes %v or has two shards on a node %v", p.Model, classes, nodes)
	}
}

func (c *checker) cards(m *fleet.Model, n *fleet.Node, s fleet.Shard, classes map[string]bool) {
	c.t.Helper()
	if want := max(1, m.Spec.Placement.GPUsPerNode); len(s.Claims) != want {
		c.t.Errorf("%s has %d claims on %s, want %d", m.Name(), len(s.Claims), n.Name, want)
	}
	last := -1
	for _, claim := range s.Claims {
		g, ok := n.GPU(claim.GPU)
		key := n.Name + "/" + claim.GPU
		if !ok || g.Health != fleet.Healthy || g.Foreign || g.Memory < m.Spec.Placement.GPUMemory {
			c.t.Errorf("%s placed on card %s, which is not fit: %+v", m.Name(), key, g)
		}
		if g.Index <= last {
			c.t.Errorf("%s: claims on %s are not in the order of the cards' index", m.Name(), n.Name)
		}
		last = g.Index
		classes[n.Class(g)] = true
		if c.whole[key] > 1 || c.whole[key] == 1 && c.shared[key] > 0 || c.shared[key] > g.Memory {
			c.t.Errorf("%s overcommits %s: %d whole, %s shared of %s", m.Name(), key, c.whole[key], c.shared[key], g.Memory)
		}
	}
}

func (c *checker) stop(s *fleet.StopItem, stopped map[string]bool) {
	c.t.Helper()
	if stopped[s.Replica] {
		c.t.Errorf("%s is stopped twice in one plan", s.Replica)
	}
	stopped[s.Replica] = true
	for _, r := range c.s.Replicas {
		if r.ID == s.Replica && (r.State.Live() || r.State == fleet.DrainingDown && r.Drain.Mark != nil) {
			return
		}
	}
	c.t.Errorf("%s is stopped, but no such replica is live", s.Replica)
}
