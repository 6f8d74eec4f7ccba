package scheduler

import (
	"slices"

	"berth/fleet"
	"berth/scheduler/capacity"
)

// spread counts the replicas of one model by node and by the labels that it is to be spread over.
type spread struct {
	keys   []string
	counts map[[2]string]int32 // key and value → replicas
}

func newSpread(m *capacity.Map, keys []string, same []*fleet.Replica) spread {
	s := spread{keys: keys, counts: map[[2]string]int32{}}
	for _, r := range same {
		if r.State.Live() {
			s.add(m, r.Shards)
		}
	}
	return s
}

func (s spread) add(m *capacity.Map, shards []fleet.Shard) {
	for _, shard := range shards {
		h := m.Host(shard.Node)
		if h == nil {
			continue
		}
		for _, key := range s.keys {
			s.counts[[2]string{key, spreadValue(h.Node, key)}]++
		}
	}
}

func (s spread) near(n *fleet.Node) int32 {
	sum := int32(0)
	for _, key := range s.keys {
		sum += s.counts[[2]string{key, spreadValue(n, key)}]
	}
	return sum
}

func spreadValue(n *fleet.Node, key string) string {
	if key == "node" {
		return n.Name
	}
	v, _ := n.Label(key)
	return v
}

// wide says whether one more replica makes other hosts dearer than the one that it is on.
func (s spread) wide() bool {
	return slices.ContainsFunc(s.keys, func(key string) bool { return key != "node" })
}
