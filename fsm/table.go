package fsm

import (
	"iter"

	"berth/fsm/ordered"
)

// table is one immutable, ordered table of rows. It is the only place that knows which tree is underneath. Rows are pointers that nobody writes
// to once they are in a table: a change is a new row.
type table[T any] struct{ rows ordered.Map[*T] }

func (t table[T]) get(key string) (*T, bool) { return t.rows.Get(key) }

func (t table[T]) size() int { return t.rows.Len() }

// all goes through the rows in key order; prefix through those whose key starts so.
func (t table[T]) all() iter.Seq2[string, *T] { return t.rows.Prefix("") }

func (t table[T]) prefix(p string) iter.Seq2[string, *T] { return t.rows.Prefix(p) }

// editor is a table being changed. Readers of the table see nothing of it until the machine swaps states.
type editor[T any] struct {
	edit    ordered.Edit[*T]
	watched bool
	changed []string // keys, for whoever watches them
	grown   bool     // a key is new
}

func (t table[T]) edit() editor[T] { return editor[T]{edit: t.rows.Edit()} }

// editWatched is edit for a table of which single rows can be watched.
func (t table[T]) editWatched() editor[T] { return editor[T]{edit: t.rows.Edit(), watched: true} }

func (e *editor[T]) get(key string) (*T, bool) { return e.edit.Get(key) }

func (e *editor[T]) put(key string, row *T) {
	added := e.edit.Put(key, row)
	e.grown = e.grown || added
	e.note(key)
}

func (e *editor[T]) del(key string) {
	if e.edit.Delete(key) {
		e.note(key)
	}
}

func (e *editor[T]) note(key string) {
	if e.watched {
		e.changed = append(e.changed, key)
	}
}

// prefix goes through the rows under a prefix; the table must not be changed meanwhile.
func (e *editor[T]) prefix(p string) iter.Seq2[string, *T] { return e.edit.Prefix(p) }

// rows collects the rows under a prefix, so that the caller may change the table while it goes through them.
func (e *editor[T]) rows(p string) []*T {
	var out []*T
	for _, v := range e.prefix(p) {
		out = append(out, v)
	}
	return out
}

func (e *editor[T]) first() (*T, bool) {
	for _, v := range e.prefix("") {
		return v, true
	}
	return nil, false
}

func (e *editor[T]) table() table[T] { return table[T]{e.edit.Map()} }
