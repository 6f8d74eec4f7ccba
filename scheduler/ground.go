package scheduler

import (
	"slices"
	"strconv"
	"strings"

	"berth/fleet"
	"berth/scheduler/capacity"
	"berth/scheduler/frag"
)

// ground is what a search for room goes by, whatever it looks for: the cards, what is known of them, and what is held back.
type ground struct {
	cards   *capacity.Map
	meter   *frag.Meter // nil: nothing was asked for
	backoff Backoff
	faults  map[string]bool            // cards with recent faults, by UUID
	weights map[string]map[string]bool // by model: the nodes that have its weights on their disk
	paired  map[string]bool            // models that are held back on some node
	shared  map[string]*finder

	reserved []bool // by host: kept for a model that waits; back to false when a plan ends
}

func newGround(m *capacity.Map, s *Snapshot) *ground {
	asked := s.Asked
	if asked == nil {
		asked = AskedBy(s.Models)
	}
	g := &ground{cards: m, meter: frag.NewMeter(m, asked, admitsShape), shared: map[string]*finder{}, reserved: make([]bool, len(m.Hosts))}
	return g.with(s)
}

// with returns the same ground under a snapshot's holds and observations. It keeps the finders, which depend on none of them but the set of nodes that are
// held back and the faults.
func (g *ground) with(s *Snapshot) *ground {
	g.backoff, g.faults, g.weights = s.Backoff, s.Faults, s.Weights
	g.paired = map[string]bool{}
	for p, h := range g.backoff.Pairs {
		if h.For > 0 {
			g.paired[p.Model] = true
		}
	}
	return g
}

// admitsShape says whether a node may ever take a shard of a shape, as far as labels, fabric and engine go.
func admitsShape(s frag.Shape, n *fleet.Node) bool {
	for key, want := range s.Placement.Require {
		if have, ok := n.Label(key); !ok || have != want {
			return false
		}
	}
	offer, ok := n.Offer(s.Driver)
	return ok && (s.Placement.Nodes < 2 || offer.SpanNodes && n.Fabric() != "")
}

// AskedBy counts the shapes that models ask for: each as often as it wants replicas, and once at least, because it may come back.
func AskedBy(models []*fleet.Model) []frag.Asked {
	var h History
	for _, m := range models {
		if !m.Deleting {
			h.Ask(&m.Spec, max(1, m.Want))
		}
	}
	return h.asked
}

// finder returns a finder for the spec. Specs that ask for the same share one, which knows already what has changed on the map since it was last used.
func (g *ground) finder(spec *fleet.ModelSpec, same []*fleet.Replica) *finder {
	disks := g.weights[spec.Name]
	if len(spec.Placement.Spread) > 0 || g.paired[spec.Name] || len(disks) > 0 && spec.Placement.Nodes > 1 {
		return newFinder(g, spec, same)
	}
	key := likeness(spec)
	f := g.shared[key]
	if f == nil {
		if len(g.shared) > 0 && len(g.shared)*len(g.cards.Hosts) > mostPlaces {
			clear(g.shared)
		}
		anyone := *spec
		anyone.Name = "" // what is known of one model is no matter for another
		f = newFinder(g, &anyone, nil)
		g.shared[key] = f
	}
	return f.with(disks)
}

// mostPlaces bounds the memory of the finders that are kept: about a hundred bytes for each host and finder.
const mostPlaces = 1 << 21

// likeness is equal for specs that are admitted to the same nodes at the same cost.
func likeness(spec *fleet.ModelSpec) string {
	e, p, back := &spec.Engine, &spec.Placement, int64(0)
	if backfills(spec) {
		back = 1
	}
	key := make([]byte, 0, 256)
	text := func(s string) { key = append(append(key, s...), 0) }
	number := func(n int64) { key = append(strconv.AppendInt(key, n, 10), 0) }
	number(int64(p.Nodes))
	number(int64(p.GPUsPerNode))
	number(int64(p.GPUShare))
	number(int64(p.GPUMemory))
	number(int64(p.CPUs))
	number(int64(p.Memory))
	number(back)
	weights := e.Weights
	if weights != "" && !strings.HasPrefix(weights, "/") {
		weights = "hub" // a node may fetch from there or may not, whatever it is
	}
	for _, list := range [][]string{{e.Driver, e.Version, weights}, p.Classes, flagsOf(e.Args), pairs(p.Require), pairs(p.Prefer)} {
		for _, s := range list {
			text(s)
		}
		key = append(key, 1)
	}
	return string(key)
}

func pairs(m map[string]string) []string {
	if len(m) == 0 {
		return nil
	}
	out := make([]string, 0, len(m))
	for k, v := range m {
		out = append(out, k+"="+v)
	}
	slices.Sort(out)
	return out
}
