package scheduler

import (
	"cmp"
	"slices"

	"berth/fleet"
	"berth/scheduler/capacity"
)

// fabricRoom is the admitted hosts of one fabric that can each take one shard of a gang.
type fabricRoom struct {
	fabric string
	hosts  []*capacity.Host
}

// gangRooms groups the hosts that can take a shard by known fabric, in the order of the fabrics' names.
func (f *finder) gangRooms(class string) []fabricRoom {
	need := f.spec.Placement.GPUsPerNode
	at := map[string]int{}
	var rooms []fabricRoom
	for _, h := range f.hosts {
		if h.Fabric == "" || f.idle(h, class) < need || !f.roomy(h) {
			continue
		}
		i, ok := at[h.Fabric]
		if !ok {
			i = len(rooms)
			at[h.Fabric] = i
			rooms = append(rooms, fabricRoom{fabric: h.Fabric})
		}
		rooms[i].hosts = append(rooms[i].hosts, h)
	}
	slices.SortFunc(rooms, func(a, b fabricRoom) int { return cmp.Compare(a.fabric, b.fabric) })
	return rooms
}

// findGang takes the hosts of least cost in the fabric where they cost least; of equal ones the fabric with the fewest hosts to spare. Ranks go
// by the names of their nodes.
func (f *finder) findGang(class string) []fleet.Shard {
	p := &f.spec.Placement
	var best []*capacity.Host
	var least gangCost
	for _, room := range f.gangRooms(class) {
		if len(room.hosts) < p.Nodes {
			continue
		}
		spare := len(room.hosts) - p.Nodes
		picked, sum := f.pick(room.hosts, class)
		c := gangCost{sum.disliked, sum.near, spare, sum.left}
		if best == nil || c.compare(least) < 0 {
			best, least = picked, c
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

type gangCost struct {
	disliked, near, spare int
	left                  int64
}

func (a gangCost) compare(b gangCost) int {
	return cmp.Or(cmp.Compare(a.disliked, b.disliked), cmp.Compare(a.near, b.near), cmp.Compare(a.spare, b.spare), cmp.Compare(a.left, b.left))
}

// pick returns the hosts of least cost, as many as the gang has nodes, and the sum of what they cost.
func (f *finder) pick(hosts []*capacity.Host, class string) ([]*capacity.Host, cost) {
	p := &f.spec.Placement
	type priced struct {
		host *capacity.Host
		cost cost
	}
	all := make([]priced, 0, len(hosts))
	for _, h := range hosts {
		all = append(all, priced{h, f.cost(h, int64(f.idle(h, class)-p.GPUsPerNode))})
	}
	slices.SortStableFunc(all, func(a, b priced) int {
		switch {
		case a.cost.less(b.cost):
			return -1
		case b.cost.less(a.cost):
			return 1
		default:
			return 0
		}
	})
	var sum cost
	picked := make([]*capacity.Host, 0, p.Nodes)
	for _, x := range all[:p.Nodes] {
		picked = append(picked, x.host)
		sum.disliked += x.cost.disliked
		sum.near += x.cost.near
		sum.left += x.cost.left
	}
	return picked, sum
}
