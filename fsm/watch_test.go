package fsm

import (
	"bytes"
	"testing"

	"berth/fleet"
	"berth/fleet/wire"
)

func closed(ch <-chan struct{}) bool {
	select {
	case <-ch:
		return true
	default:
		return false
	}
}

// TestWatch finds for each change who is woken, and who sleeps on.
func TestWatch(t *testing.T) {
	change := map[string]Command{
		"model":    ModelScale{Model: "m", Replicas: 3},
		"node":     NodeAdmin{Node: "n1", Admin: fleet.Cordoned},
		"cluster":  FreezeSet{Freeze: &fleet.Freeze{Reason: "r"}},
		"replica":  ReplicaStop{Replica: "r-1.7.1", Reason: "r"},
		"nothing":  FreezeSet{},
		"rejected": ModelScale{Model: "nosuch", Replicas: 3},
		"exit": ReplicaTransitions{Node: "n1", Instance: 1, Items: []wire.Transition{{
			Replica: "r-1.7.1", Order: fleet.Index{Epoch: 1, N: 7}, Start: 1, To: wire.BecameExited}}},
	}
	watch := map[string]func(*State) <-chan struct{}{
		"models":            func(s *State) <-chan struct{} { return s.Watch(Models) },
		"nodes":             func(s *State) <-chan struct{} { return s.Watch(Nodes) },
		"nodes or replicas": func(s *State) <-chan struct{} { return s.Watch(Nodes, Replicas) },
		"anything":          func(s *State) <-chan struct{} { return s.Watch() },
		"model m":           func(s *State) <-chan struct{} { return s.WatchKey(Models, "m") },
		"model pair":        func(s *State) <-chan struct{} { return s.WatchKey(Models, "pair") },
		"replica 1":         func(s *State) <-chan struct{} { return s.WatchKey(Replicas, "r-1.7.1") },
		"replica 2":         func(s *State) <-chan struct{} { return s.WatchKey(Replicas, "r-1.7.2") },
		"orders n1":         func(s *State) <-chan struct{} { return s.WatchOrders("n1") },
		"orders n2":         func(s *State) <-chan struct{} { return s.WatchOrders("n2") },
		"table":             (*State).WatchTable,
	}
	woken := map[string][]string{
		"model":    {"models", "anything", "model m", "orders n1", "table"}, // its replicas' orders carry the spec
		"node":     {"nodes", "nodes or replicas", "anything"},
		"cluster":  {"anything"},
		"replica":  {"nodes or replicas", "anything", "replica 1", "orders n1", "table"},
		"nothing":  nil,
		"rejected": nil,
		"exit":     {"nodes or replicas", "anything", "replica 1"},
	}
	for name, c := range change {
		m := sample(t)
		chans := map[string]<-chan struct{}{}
		for w, f := range watch {
			chans[w] = f(m.State())
		}
		applyAt(t, m, 100, Meta{}, c)
		want := map[string]bool{}
		for _, w := range woken[name] {
			want[w] = true
		}
		for w, ch := range chans {
			if closed(ch) != want[w] {
				t.Errorf("a change of %s: the watcher of %s is woken: %v, want %v", name, w, closed(ch), want[w])
			}
		}
	}
}

// TestWatchAfterTheChange is the race that loses wake-ups elsewhere: the state was loaded before the change, the watch is set after it.
func TestWatchAfterTheChange(t *testing.T) {
	m := sample(t)
	s := m.State()
	applyAt(t, m, 100, Meta{}, ModelScale{Model: "m", Replicas: 3})
	for name, ch := range map[string]<-chan struct{}{
		"models": s.Watch(Models), "anything": s.Watch(), "model m": s.WatchKey(Models, "m"), "table": s.WatchTable(),
	} {
		if !closed(ch) {
			t.Errorf("the watcher of %s waits for a change that has been", name)
		}
	}
	if closed(m.State().Watch(Models)) {
		t.Error("the new state is woken by the change that made it")
	}
}

func TestRestoreWakesEveryWatcher(t *testing.T) {
	m := sample(t)
	data := snapshotOf(t, m.State())
	s := m.State()
	watchers := map[string]<-chan struct{}{
		"anything": s.Watch(), "models": s.Watch(Models), "cluster": s.Watch(Cluster),
		"a model": s.WatchKey(Models, "m"), "a model that is not there": s.WatchKey(Models, "zzz"), "a node": s.WatchKey(Nodes, "n2"),
		"a replica": s.WatchKey(Replicas, "r-1.7.1"), "orders": s.WatchOrders("n1"), "orders of nobody": s.WatchOrders("n9"), "table": s.WatchTable(),
	}
	for name, ch := range watchers {
		if closed(ch) {
			t.Fatalf("%s: woken before anything happened", name)
		}
	}
	must(t, m.Restore(bytes.NewReader(data)))
	for name, ch := range watchers {
		if !closed(ch) {
			t.Errorf("%s: sleeps on after the restore", name)
		}
	}
	if closed(m.State().Watch()) {
		t.Error("the restored state is woken already")
	}
	applyAt(t, m, 101, Meta{}, ModelScale{Model: "m", Replicas: 4}) // closes nothing twice
}
