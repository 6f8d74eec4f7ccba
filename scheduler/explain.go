package scheduler

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"berth/fleet"
	"berth/scheduler/capacity"
)

// explain says why f finds no room: what is needed, the largest block that there is, how many nodes stand out for which reason, and what would help.
func (p *planner) explain(model string, f *finder) fleet.Refusal {
	counts := f.reasons()
	return fleet.Refusal{
		Reason:    f.largest() + "; " + sentence(len(f.cards.Hosts), counts),
		Counts:    counts,
		WouldHelp: p.wouldHelp(model, f),
	}
}

// shape says what one replica needs: "8 x h100-80", "2 nodes of 8 x h100-80 in one fabric", "2GiB of a t4-16gb".
func shape(spec *fleet.ModelSpec) string {
	p := &spec.Placement
	class := "GPU"
	if len(p.Classes) > 0 {
		class = strings.Join(p.Classes, " or ")
	}
	if p.GPUMemory > 0 {
		class += fmt.Sprintf(" with %s", p.GPUMemory)
	}
	switch {
	case p.GPUShare > 0:
		return fmt.Sprintf("%s of a %s", p.GPUShare, class)
	case p.Nodes == 1:
		return fmt.Sprintf("%d x %s", p.GPUsPerNode, class)
	default:
		return fmt.Sprintf("%d nodes of %d x %s in one fabric", p.Nodes, p.GPUsPerNode, class)
	}
}

// largest sets what is needed against the largest block of an allowed class that is free on admitted nodes.
func (f *finder) largest() string {
	need := "needs " + shape(f.spec)
	switch p := &f.spec.Placement; {
	case p.GPUShare > 0:
		return fmt.Sprintf("%s, largest free part %s", need, f.largestPart())
	case p.Nodes == 1:
		return fmt.Sprintf("%s on one node, largest free block %s", need, f.largestOnNode())
	default:
		return fmt.Sprintf("%s, largest free block in one fabric %s", need, f.largestInFabric())
	}
}

func (f *finder) largestOnNode() string {
	best, class := 0, ""
	for _, c := range f.classes {
		for _, h := range f.hosts {
			if n := f.idle(h, c); h.Ready && n > best {
				best, class = n, c
			}
		}
	}
	return f.block(best, class)
}

// largestInFabric counts the cards of whole shards: eight free cards on each of two nodes are a block of 16 if they share a fabric, and four are
// none where a shard needs eight.
func (f *finder) largestInFabric() string {
	best, class := 0, ""
	for _, c := range f.classes {
		for _, room := range f.fabrics {
			if n := f.able(room.hosts, c) * f.spec.Placement.GPUsPerNode; n > best {
				best, class = n, c
			}
		}
	}
	return f.block(best, class)
}

// block names the class only where several would do.
func (f *finder) block(n int, class string) string {
	if n == 0 || len(f.spec.Placement.Classes) == 1 {
		return fmt.Sprint(n)
	}
	return fmt.Sprintf("%d x %s", n, class)
}

func (f *finder) largestPart() fleet.Bytes {
	var best fleet.Bytes
	for _, c := range f.classes {
		for _, h := range f.hosts {
			for i := range h.Cards {
				if h.Ready && f.suits(&h.Cards[i], c) {
					best = max(best, h.Cards[i].Room())
				}
			}
		}
	}
	return best
}

// reasons counts the nodes by why each takes no shard, most nodes first.
func (f *finder) reasons() []fleet.ReasonCount {
	counts := map[string]int{}
	home := f.bestFabric()
	for _, h := range f.cards.Hosts {
		counts[f.why(h, home)]++
	}
	out := make([]fleet.ReasonCount, 0, len(counts))
	for reason, n := range counts {
		out = append(out, fleet.ReasonCount{Reason: reason, Nodes: n})
	}
	slices.SortFunc(out, func(a, b fleet.ReasonCount) int {
		return cmp.Or(cmp.Compare(b.Nodes, a.Nodes), cmp.Compare(a.Reason, b.Reason))
	})
	return out
}

// bestFabric returns the fabric in which most nodes could take a shard of a gang; nodes elsewhere are "in another fabric".
func (f *finder) bestFabric() string {
	best, most := "", 0
	for _, class := range f.classes {
		for _, room := range f.fabrics {
			if n := f.able(room.hosts, class); n > most {
				best, most = room.fabric, n
			}
		}
	}
	return best
}

// why says what keeps a host from taking a shard; home is the fabric that comes nearest to holding the whole gang. What can never change is
// named before what can.
func (f *finder) why(h *capacity.Host, home string) string {
	if reason := f.admit.ever(h.Node); reason != "" {
		return reason
	}
	cards := f.whyCards(h)
	p := &f.spec.Placement
	switch {
	case cards.never:
		return cards.text
	case f.admit.refuse(h) != "":
		return f.admit.refuse(h)
	case cards.text != "":
		return cards.text
	case f.barred(h):
		return "reserved for a model that has waited longer"
	case p.CPUs > 0 && h.CPUs < p.CPUs:
		return fmt.Sprintf("short of %d CPUs", p.CPUs)
	case p.Memory > 0 && h.Memory < p.Memory:
		return fmt.Sprintf("short of %s host memory", p.Memory)
	case p.Nodes > 1 && h.Fabric != home:
		return "in another fabric"
	case p.Nodes > 1:
		return "free in fabric " + home
	default:
		return "free"
	}
}

// sentence writes counts in one line: "12 nodes: 8 x h100 busy, 3 cordoned, 1 in another fabric".
func sentence(nodes int, counts []fleet.ReasonCount) string {
	if nodes == 0 {
		return "there are no nodes"
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%d nodes: ", nodes)
	if nodes == 1 {
		b.Reset()
		b.WriteString("1 node: ")
	}
	for i, c := range counts {
		if i > 0 {
			b.WriteString(", ")
		}
		sep := " "
		for _, ending := range []string{busy, unwell, others} {
			if strings.HasSuffix(c.Reason, ending) {
				sep = " x "
			}
		}
		fmt.Fprintf(&b, "%d%s%s", c.Nodes, sep, c.Reason)
	}
	return b.String()
}
