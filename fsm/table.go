package fsm

import (
	"iter"

	iradix "github.com/hashicorp/go-immutable-radix/v2"
)

// table is one immutable, ordered table of rows. It is the only place that knows which tree is underneath. Rows are pointers that nobody writes
// to once they are in a table: a change is a new row.
type table[T any] struct{ tree *iradix.Tree[*T] }

func newTable[T any]() table[T] { return table[T]{iradix.New[*T]()} }

func (t table[T]) get(key string) (*T, bool) { return t.tree.Get([]byte(key)) }

func (t table[T]) size() int { return t.tree.Len() }

// all goes through the rows in key order; prefix through those whose key starts so.
func (t table[T]) all() iter.Seq2[string, *T] { return t.prefix("") }

func (t table[T]) prefix(p string) iter.Seq2[string, *T] { return walk(t.tree.Root(), p) }

// watch returns a channel that is closed when the row of that key is put, replaced or removed. For a key that is not there it may also be
// closed by a neighbour's change: watchers look again anyway.
func (t table[T]) watch(key string) <-chan struct{} {
	ch, _, _ := t.tree.Root().GetWatch([]byte(key))
	return ch
}

// abandon closes every watch channel of the table, because another table takes its place as a whole.
func (t table[T]) abandon() {
	tx := t.tree.Txn()
	tx.TrackMutate(true)
	tx.DeletePrefix(nil)
	tx.Commit()
}

func walk[T any](root *iradix.Node[*T], p string) iter.Seq2[string, *T] {
	return func(yield func(string, *T) bool) {
		it := root.Iterator()
		it.SeekPrefix([]byte(p))
		for k, v, ok := it.Next(); ok; k, v, ok = it.Next() {
			if !yield(string(k), v) {
				return
			}
		}
	}
}

// editor is a table being changed. Readers of the table see nothing of it until the machine swaps states.
type editor[T any] struct{ tx *iradix.Txn[*T] }

func (t table[T]) edit() editor[T] {
	tx := t.tree.Txn()
	tx.TrackMutate(true)
	return editor[T]{tx}
}

func (e editor[T]) get(key string) (*T, bool) { return e.tx.Get([]byte(key)) }

func (e editor[T]) put(key string, row *T) { e.tx.Insert([]byte(key), row) }

func (e editor[T]) del(key string) { e.tx.Delete([]byte(key)) }

// rows collects the rows under a prefix, so that the caller may change the table while it goes through them.
func (e editor[T]) rows(p string) []*T {
	var out []*T
	for _, v := range walk(e.tx.Root(), p) {
		out = append(out, v)
	}
	return out
}

func (e editor[T]) first() (*T, bool) {
	_, v, ok := e.tx.Root().Minimum()
	return v, ok
}

// table returns the changed table; notify wakes the watchers of what was changed. They are two steps because a watcher that wakes must find
// the new state.
func (e editor[T]) table() table[T] { return table[T]{e.tx.CommitOnly()} }

func (e editor[T]) notify() { e.tx.Notify() }
