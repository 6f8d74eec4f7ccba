package scheduler

import (
	"cmp"
	"slices"

	"berth/fleet"
)

// Row is a row of the agreed state that is another than before: Old is nil for one that is new, New for one that is gone.
type Row[T any] struct{ Old, New *T }

// Changes are the rows that differ between two snapshots.
type Changes struct {
	Models   []Row[fleet.Model]
	Nodes    []Row[fleet.Node]
	Replicas []Row[fleet.Replica]
}

// Rows are the agreed rows of a snapshot, kept from one to the next at the cost of what has changed. The zero value has none.
type Rows struct {
	Models   []*fleet.Model   // by name
	Nodes    []*fleet.Node    // by name
	Replicas []*fleet.Replica // by id
}

// Apply brings the rows up to date; slices that were read before are good no more.
func (r *Rows) Apply(c *Changes) {
	r.Models = applied(r.Models, c.Models, (*fleet.Model).Name)
	r.Nodes = applied(r.Nodes, c.Nodes, nodeName)
	r.Replicas = applied(r.Replicas, c.Replicas, replicaID)
}

func nodeName(n *fleet.Node) string     { return n.Name }
func replicaID(r *fleet.Replica) string { return r.ID }

func (row Row[T]) key(of func(*T) string) string {
	if row.New != nil {
		return of(row.New)
	}
	return of(row.Old)
}

// applied returns the rows with the changes, which are in the order of their keys as the rows are. Rows that are only others are replaced where they are.
func applied[T any](rows []*T, changes []Row[T], key func(*T) string) []*T {
	moved := 0
	for _, c := range changes {
		if c.Old == nil || c.New == nil {
			moved++
			continue
		}
		if i, ok := find(rows, key(c.New), key); ok {
			rows[i] = c.New
		}
	}
	if moved == 0 {
		return rows
	}
	out := make([]*T, 0, len(rows)+moved)
	from := 0
	for _, c := range changes {
		if c.Old != nil && c.New != nil {
			continue
		}
		i, ok := find(rows[from:], c.key(key), key)
		out = append(out, rows[from:from+i]...)
		if from += i; ok {
			from++
		}
		if c.New != nil {
			out = append(out, c.New)
		}
	}
	return append(out, rows[from:]...)
}

func find[T any](rows []*T, key string, of func(*T) string) (int, bool) {
	return slices.BinarySearchFunc(rows, key, func(row *T, key string) int { return cmp.Compare(of(row), key) })
}

// between compares rows one by one: what a reader does that was not told what has changed.
func between(was, is *Rows) *Changes {
	return &Changes{
		Models: differing(was.Models, is.Models, (*fleet.Model).Name), Nodes: differing(was.Nodes, is.Nodes, nodeName),
		Replicas: differing(was.Replicas, is.Replicas, replicaID),
	}
}

func differing[T any](was, is []*T, key func(*T) string) []Row[T] {
	var out []Row[T]
	for len(was) > 0 || len(is) > 0 {
		switch {
		case len(was) > 0 && len(is) > 0 && was[0] == is[0]:
			was, is = was[1:], is[1:]
		case len(is) == 0 || len(was) > 0 && key(was[0]) < key(is[0]):
			out, was = append(out, Row[T]{Old: was[0]}), was[1:]
		case len(was) == 0 || key(is[0]) < key(was[0]):
			out, is = append(out, Row[T]{New: is[0]}), is[1:]
		default:
			out = append(out, Row[T]{Old: was[0], New: is[0]})
			was, is = was[1:], is[1:]
		}
	}
	return out
}

// watched keeps the rows for a reader that may not be told what has changed since the snapshot before. A reader is always told, or never.
type watched struct{ rows Rows }

func (w *watched) next(s *Snapshot) (was, is Rows) {
	is = Rows{Models: slices.Clone(s.Models), Nodes: slices.Clone(s.Nodes), Replicas: slices.Clone(s.Replicas)}
	was, w.rows = w.rows, is
	return was, is
}

// changes gives the rows that are other ones.
func (w *watched) changes(s *Snapshot) *Changes {
	if s.Since != nil {
		return s.Since
	}
	was, is := w.next(s)
	return between(&was, &is)
}

// all gives every row where nobody says what has changed: for a reader that rows may be written to between two looks.
func (w *watched) all(s *Snapshot) *Changes {
	if s.Since != nil {
		return s.Since
	}
	was, is := w.next(s)
	c := between(&was, &is)
	return &Changes{every(c.Models, is.Models), every(c.Nodes, is.Nodes), every(c.Replicas, is.Replicas)}
}

// every gives the rows that are gone, and all that are there.
func every[T any](changes []Row[T], rows []*T) []Row[T] {
	out := slices.DeleteFunc(changes, func(r Row[T]) bool { return r.New != nil })
	for _, row := range rows {
		out = append(out, Row[T]{New: row})
	}
	return out
}

func news[T any](changes []Row[T]) []*T {
	out := make([]*T, 0, len(changes))
	for _, c := range changes {
		if c.New != nil {
			out = append(out, c.New)
		}
	}
	return out
}
