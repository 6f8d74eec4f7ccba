package fsm

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"sync"

	"berth/fleet"
)

// feeds is the table of feeds, beside the topics, for those who watch one row.
const feeds Topic = 0

// rowKey is a row that somebody watches. The empty key stands for every row that is not there yet: watchers of rows that may never come must
// not pile up, so they share one channel a table.
type rowKey struct {
	table Topic
	key   string
}

func (a rowKey) compare(b rowKey) int {
	return cmp.Or(cmp.Compare(a.table, b.table), strings.Compare(a.key, b.key))
}

// hub wakes who watches single rows. All states of one history share it, and it knows the newest of them: a row that differs from the watcher's
// own has been changed already. Restore begins a new history.
type hub struct {
	mu     sync.Mutex
	newest *State
	over   bool // another history has taken its place
	rows   map[rowKey]chan struct{}
}

func newHub(first *State) *hub { return &hub{newest: first, rows: map[rowKey]chan struct{}{}} }

// watch returns a channel that is closed when the row differs from that of the state.
func (h *hub) watch(s *State, t Topic, key string) <-chan struct{} {
	h.mu.Lock()
	defer h.mu.Unlock()
	own := s.row(t, key)
	if h.over || own != h.newest.row(t, key) {
		gone := make(chan struct{})
		close(gone)
		return gone
	}
	at := rowKey{t, key}
	if own == nil {
		at.key = ""
	}
	if h.rows[at] == nil {
		h.rows[at] = make(chan struct{})
	}
	return h.rows[at]
}

// publish makes a state the newest and wakes the watchers of what its entry has changed. Readers can see the state already.
func (h *hub) publish(s *State, tx *txn) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.newest = s
	h.wake(Models, tx.models.changed, tx.models.grown)
	h.wake(Nodes, tx.nodes.changed, tx.nodes.grown)
	h.wake(Replicas, tx.replicas.changed, tx.replicas.grown)
	h.wake(feeds, tx.feeds.changed, tx.feeds.grown)
}

func (h *hub) wake(t Topic, changed []string, grown bool) {
	for _, key := range changed {
		h.fire(rowKey{t, key})
	}
	if grown {
		h.fire(rowKey{t, ""})
	}
}

func (h *hub) fire(at rowKey) {
	if ch, ok := h.rows[at]; ok {
		close(ch)
		delete(h.rows, at)
	}
}

// end wakes everyone, because another history takes the place of this one.
func (h *hub) end() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.over, h.newest = true, nil
	for _, at := range slices.SortedFunc(maps.Keys(h.rows), rowKey.compare) {
		h.fire(at)
	}
}

// row returns a row as something that can be compared, nil when there is none.
func (s *State) row(t Topic, key string) any {
	switch t {
	case Models:
		return found[fleet.Model](s.models.get(key))
	case Nodes:
		return found[fleet.Node](s.nodes.get(key))
	case Replicas:
		return found[fleet.Replica](s.replicas.get(key))
	default:
		return found[fleet.Index](s.feeds.get(key))
	}
}

func found[T any](row *T, ok bool) any {
	if !ok {
		return nil
	}
	return row
}
