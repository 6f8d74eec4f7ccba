package scheduler

import (
	"slices"

	"berth/fleet"
)

// index finds rows by what a plan asks for.
type index struct {
	models  map[string]*fleet.Model
	nodes   map[string]*fleet.Node
	byModel map[string][]*fleet.Replica // by id
	onNode  map[string][]*fleet.Replica // those that hold cards of a node, by id
}

func newIndex() index {
	return index{map[string]*fleet.Model{}, map[string]*fleet.Node{}, map[string][]*fleet.Replica{}, map[string][]*fleet.Replica{}}
}

func (x *index) apply(c *Changes) {
	put(x.models, c.Models, (*fleet.Model).Name)
	put(x.nodes, c.Nodes, nodeName)
	for _, row := range c.Replicas {
		if r := row.Old; r != nil {
			delist(x.byModel, r.Model, r.ID)
			for _, s := range r.Shards {
				if !s.Released {
					delist(x.onNode, s.Node, r.ID)
				}
			}
		}
		if r := row.New; r != nil {
			enlist(x.byModel, r.Model, r)
			for _, s := range r.Shards {
				if !s.Released {
					enlist(x.onNode, s.Node, r)
				}
			}
		}
	}
}

func put[T any](rows map[string]*T, changes []Row[T], key func(*T) string) {
	for _, c := range changes {
		if c.New == nil {
			delete(rows, key(c.Old))
		} else {
			rows[key(c.New)] = c.New
		}
	}
}

// enlist and delist keep a list in the order of the replicas' ids.
func enlist(lists map[string][]*fleet.Replica, key string, r *fleet.Replica) {
	i, _ := find(lists[key], r.ID, replicaID)
	lists[key] = slices.Insert(lists[key], i, r)
}

func delist(lists map[string][]*fleet.Replica, key, id string) {
	i, ok := find(lists[key], id, replicaID)
	switch {
	case !ok:
	case len(lists[key]) == 1:
		delete(lists, key)
	default:
		lists[key] = slices.Delete(lists[key], i, i+1)
	}
}
