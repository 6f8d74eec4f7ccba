package fsm

import (
	"sync"

	"berth/fleet"
)

// Topic is a set of tables to watch.
type Topic uint8

// The tables that can be watched. Cluster covers identity, level, epoch, settings, freeze and servers.
const (
	Models Topic = 1 << iota
	Nodes
	Replicas
	Cluster
	topicSets = 1 << iota
)

const everything = Models | Nodes | Replicas | Cluster

// Watch returns a channel that is closed when a row of any of these tables differs from this state's, or the state is replaced by Restore.
// Load a state, read from it, and then wait on its channel: a change in between closes it too. No topic means all of them.
func (s *State) Watch(topics ...Topic) <-chan struct{} {
	var set Topic
	for _, t := range topics {
		set |= t & everything
	}
	if set == 0 {
		set = everything
	}
	return s.signals[set].wait()
}

// WatchKey is Watch for one row of one table: a model, node or replica. For a row that is not there it is closed
// by any new row of the table; look again.
func (s *State) WatchKey(t Topic, name string) <-chan struct{} {
	switch t {
	case Models, Nodes, Replicas:
		return s.hub.watch(s, t, name)
	default:
		return s.Watch(t)
	}
}

// OrdersIndex returns the index at which the orders of a node last changed; zero when it never had one.
func (s *State) OrdersIndex(node string) fleet.Index { return s.feed(ordersFeed(node)) }

// WatchOrders returns a channel that is closed when the orders of that node change.
func (s *State) WatchOrders(node string) <-chan struct{} {
	return s.hub.watch(s, feeds, ordersFeed(node))
}

// TableIndex returns the index at which the routers' table last changed.
func (s *State) TableIndex() fleet.Index { return s.feed(feedTable) }

// WatchTable returns a channel that is closed when the routers' table changes.
func (s *State) WatchTable() <-chan struct{} { return s.hub.watch(s, feeds, feedTable) }

func (s *State) feed(name string) fleet.Index {
	if i, ok := s.feeds.get(name); ok {
		return *i
	}
	return fleet.Index{}
}

// signals holds one signal for each set of topics. With four tables sixteen sets are cheaper than a goroutine a waiter that joins channels.
type signals [topicSets]*signal

func newSignals() signals { return signals{}.next(everything) }

// next keeps the signals of sets that nothing changed in, and makes new ones for the others. The caller fires the old ones once the new state
// can be seen.
func (s signals) next(changed Topic) signals {
	for set := range s {
		if Topic(set)&changed != 0 {
			s[set] = new(signal)
		}
	}
	return s
}

func (s signals) fire(changed Topic) {
	for set, sig := range s {
		if Topic(set)&changed != 0 {
			sig.fire()
		}
	}
}

// signal is a channel that is made only when somebody waits for it: most states are replaced before anyone does.
type signal struct {
	mu    sync.Mutex
	ch    chan struct{}
	fired bool
}

func (s *signal) wait() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ch == nil {
		s.ch = make(chan struct{})
		if s.fired {
			close(s.ch)
		}
	}
	return s.ch
}

func (s *signal) fire() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ch != nil && !s.fired {
		close(s.ch)
	}
	s.fired = true
}
