package fsm

import (
	"berth/fleet"
	"berth/fsm/ordered"
)

// Changes is told of each row that differs between two states: old is nil for a row that is new, and row for one that is gone. After a restore
// rows are other pointers without being other rows; their Changed index says so.
type Changes struct {
	Model   func(old, row *fleet.Model)
	Node    func(old, row *fleet.Node)
	Replica func(old, row *fleet.Replica)
}

// Diff tells what differs between two states: models, then nodes, then replicas, each in order of name. Between two states of one history it
// costs what has changed, whatever the size of the fleet.
func Diff(was, is *State, to Changes) {
	differ(was.models, is.models, to.Model)
	differ(was.nodes, is.nodes, to.Node)
	differ(was.replicas, is.replicas, to.Replica)
}

func differ[T any](was, is table[T], fn func(old, row *T)) {
	ordered.Diff(was.rows, is.rows, func(_ string, old, row *T) { fn(old, row) })
}
