package main

import (
	"cmp"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
)

// policy places one task after the other, or drops it.
type policy interface {
	place(t *task) bool
}

// chooser is a baseline: a node and the card of a part (-1 for whole cards), or -1 for nowhere.
type chooser interface {
	choose(nodes []*node, t *task) (node, gpu int)
	changed(n *node)
}

// baseline applies what a chooser chooses.
type baseline struct {
	nodes []*node
	chooser
}

func newBaseline(machines []machine, c chooser) policy {
	b := &baseline{newNodes(machines), c}
	for _, n := range b.nodes {
		c.changed(n)
	}
	return b
}

func (b *baseline) place(t *task) bool {
	i, gpu := b.choose(b.nodes, t)
	if i < 0 {
		return false
	}
	b.nodes[i].take(t, gpu)
	b.changed(b.nodes[i])
	return true
}

// random takes any node that fits, and any card of it.
type random struct{ r *rand.Rand }

func (random) changed(*node) {}

func (x random) choose(nodes []*node, t *task) (int, int) {
	var fit []int
	for i, n := range nodes {
		if n.fits(t) {
			fit = append(fit, i)
		}
	}
	if len(fit) == 0 {
		return -1, -1
	}
	i := fit[x.r.IntN(len(fit))]
	if !t.part() {
		return i, -1
	}
	var cards []int
	for g, f := range nodes[i].free {
		if f >= t.milli {
			cards = append(cards, g)
		}
	}
	return i, cards[x.r.IntN(len(cards))]
}

// bestFit takes the node with the least CPU and GPU left, each as a part of the largest machine's, as an integer out of 100; of a part's cards the fullest.
type bestFit struct{}

// The largest machine of the paper's simulator.
const mostCPU, mostGPU = 128_000, 8 * card

func (bestFit) changed(*node) {}

func (bestFit) choose(nodes []*node, t *task) (int, int) {
	best, most := -1, -1
	for i, n := range nodes {
		if !n.fits(t) {
			continue
		}
		left := float64(n.cpu-t.cpu)/mostCPU/2 + float64(n.total()-t.demand())/mostGPU/2
		if score := int(100 * (1 - left)); score > most {
			best, most = i, score
		}
	}
	if best < 0 || !t.part() {
		return best, -1
	}
	return best, fullest(nodes[best], t)
}

func fullest(n *node, t *task) int {
	best := -1
	for g, f := range n.free {
		if f >= t.milli && (best < 0 || f < n.free[best]) {
			best = g
		}
	}
	return best
}

// fgd takes the node and card where the fragments for the workload's typical tasks grow least. Its score is an integer between 0 and 100, so that what is
// nearly equal is equal, and of equal nodes the first by name is taken: without these two details it does not reach what was published.
type fgd struct{ typical []class }

// class is a kind of task and its part of the workload.
type class struct {
	task
	weight float64
}

// typicalOf returns the most frequent kinds that make up 95 % of the tasks. FGD is told the whole workload before it begins.
func typicalOf(tasks []task) []class {
	count := map[task]int{}
	for _, t := range tasks {
		t.memory = 0
		count[t]++
	}
	kinds := slices.SortedFunc(maps.Keys(count), func(a, b task) int { // of equally frequent kinds the larger first, as in the paper's simulator
		return cmp.Or(cmp.Compare(count[b], count[a]), cmp.Compare(b.cpu, a.cpu), cmp.Compare(b.milli, a.milli), cmp.Compare(b.gpus, a.gpus), cmp.Compare(b.spec, a.spec))
	})
	var out []class
	covered := 0
	for _, k := range kinds {
		if 100*covered >= 95*len(tasks) {
			break
		}
		covered += count[k]
		out = append(out, class{k, float64(count[k])})
	}
	for i := range out {
		out[i].weight /= float64(covered)
	}
	return out
}

func (f *fgd) changed(n *node) { n.fragment = f.fragments(n) }

// fragments is what of the node's free GPU each class cannot use, weighted.
func (f *fgd) fragments(n *node) float64 {
	sum, total := 0.0, float64(n.total())
	for i := range f.typical {
		c := &f.typical[i]
		if c.gpus == 0 || n.cpu < c.cpu || n.room(c.milli) < c.gpus || !n.allows(c.spec) {
			sum += c.weight * total
			continue
		}
		for _, free := range n.free {
			if free < c.milli {
				sum += c.weight * float64(free)
			}
		}
	}
	return sum
}

func (f *fgd) choose(nodes []*node, t *task) (int, int) {
	best, card, most := -1, -1, -1
	try := func(i, gpu int) {
		after := *nodes[i]
		after.free = slices.Clone(after.free)
		after.take(t, gpu)
		grows := f.fragments(&after) - nodes[i].fragment
		if score := int(100 / (1 + math.Exp(grows/1000))); score > most {
			best, card, most = i, gpu, score
		}
	}
	for i, n := range nodes {
		switch {
		case !n.fits(t):
		case !t.part():
			try(i, -1)
		default:
			for g, free := range n.free {
				if free >= t.milli && slices.Index(n.free, free) == g {
					try(i, g)
				}
			}
		}
	}
	return best, card
}
