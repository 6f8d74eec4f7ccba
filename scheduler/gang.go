package scheduler

import (
	"cmp"
	"slices"

	"berth/fleet"
	"berth/scheduler/capacity"
)

// fabricHosts is the admitted hosts of one known fabric.
type fabricHosts struct {
	fabric string
	hosts  []*capacity.Host
}

// byFabric groups hosts that are admitted for a gang, so in a known fabric, by it, in the order of the fabrics' names.
func byFabric(hosts []*capacity.Host) []fabricHosts {
	at := map[string]int{}
	var out []fabricHosts
	for _, h := range hosts {
		i, ok := at[h.Fabric]
		if !ok {
			i = len(out)
			at[h.Fabric] = i
			out = append(out, fabricHosts{fabric: h.Fabric})
		}
		out[i].hosts = append(out[i].hosts, h)
	}
	slices.SortFunc(out, func(a, b fabricHosts) int { return cmp.Compare(a.fabric, b.fabric) })
	return out
}

// able appends those of the hosts that can take a shard now to buf, each with what it costs.
func (f *finder) able(buf []priced, hosts []*capacity.Host, class string) []priced {
	need := f.spec.Placement.GPUsPerNode
	for _, h := range hosts {
		if idle := f.idle(h, class); idle >= need && f.roomy(h) {
			buf = append(buf, priced{h, f.cost(h, int64(idle-need))})
		}
	}
	return buf
}

// priced is a host and what a shard there would cost.
type priced struct {
	host *capacity.Host
	cost cost
}

// findGang takes the hosts of least cost in the fabric where they cost least; of equal ones the fabric with the fewest hosts to spare. Ranks go
// by the names of their nodes.
func (f *finder) findGang(class string) []fleet.Shard {
	p := &f.spec.Placement
	var best []*capacity.Host
	var least gangCost
	var buf []priced
	for _, room := range f.fabrics {
		if buf = f.able(buf[:0], room.hosts, class); len(buf) < p.Nodes {
			continue
		}
		if c := cheapest(buf, p.Nodes); best == nil || c.compare(least) < 0 {
			least, best = c, best[:0]
			for _, x := range buf[:p.Nodes] {
				best = append(best, x.host)
			}
		}
	}
	if best == nil {
		return nil
	}
	slices.SortFunc(best, func(a, b *capacity.Host) int { return cmp.Compare(a.Node.Name, b.Node.Name) })
	shards := make([]fleet.Shard, 0, p.Nodes)
	for _, h := range best {
		shards = append(shards, f.take(h, class, p.GPUsPerNode))
	}
	return shards
}

// cheapest sorts the n hosts of least cost to the front and adds up what they cost; equal costs keep the order of the hosts.
func cheapest(hosts []priced, n int) gangCost {
	slices.SortStableFunc(hosts, func(a, b priced) int {
		switch {
		case a.cost.less(b.cost):
			return -1
		case b.cost.less(a.cost):
			return 1
		default:
			return 0
		}
	})
	sum := gangCost{spare: len(hosts) - n}
	for _, x := range hosts[:n] {
		sum.disliked += x.cost.disliked
		sum.near += x.cost.near
		sum.left += x.cost.left
	}
	return sum
}

type gangCost struct {
	disliked, near, spare int
	left                  int64
}

func (a gangCost) compare(b gangCost) int {
	return cmp.Or(cmp.Compare(a.disliked, b.disliked), cmp.Compare(a.near, b.near), cmp.Compare(a.spare, b.spare), cmp.Compare(a.left, b.left))
}
