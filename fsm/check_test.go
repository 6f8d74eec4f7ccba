package fsm

import (
	"bytes"
	"fmt"
	"slices"
	"testing"

	"berth/fleet"
)

// snapshotOf returns a state's snapshot.
func snapshotOf(t testing.TB, s *State) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := s.WriteSnapshot(&b); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// restored returns a machine that was restored from a state's snapshot.
func restored(t testing.TB, s *State) *Machine {
	t.Helper()
	m := New()
	if err := m.Restore(bytes.NewReader(snapshotOf(t, s))); err != nil {
		t.Fatal(err)
	}
	return m
}

func checkRoundTrip(t testing.TB, s *State) {
	t.Helper()
	a := snapshotOf(t, s)
	m := restored(t, s)
	if b := snapshotOf(t, m.State()); !bytes.Equal(a, b) {
		t.Fatalf("a restored state writes another snapshot:\n%s\n%s", a, b)
	}
	if got, want := text(m.State().core), text(s.core); got != want || m.State().Index() != s.Index() {
		t.Fatalf("a restored state is at %s with %s, not at %s with %s", m.State().Index(), got, s.Index(), want)
	}
	if got, want := derived(m.State()), derived(s); got != want {
		t.Fatalf("a restored state derives other indexes:\n%s\n%s", got, want)
	}
}

// derived writes out every index, because a snapshot holds none of them.
func derived(s *State) string {
	var b bytes.Buffer
	for k, r := range s.byModel.all() {
		fmt.Fprintf(&b, "model %q %s\n", k, r.ID)
	}
	for k, r := range s.byNode.all() {
		fmt.Fprintf(&b, "node %q %s\n", k, r.ID)
	}
	for k, m := range s.names.all() {
		fmt.Fprintf(&b, "name %q %s\n", k, *m)
	}
	for k, n := range s.nodeIDs.all() {
		fmt.Fprintf(&b, "id %q %s\n", k, *n)
	}
	for k, id := range s.requestAt.all() {
		fmt.Fprintf(&b, "request %q %s\n", k, *id)
	}
	return b.String()
}

// checkInvariants holds a state against what must be true of every state, whatever commands have made it.
func checkInvariants(t testing.TB, s *State) {
	t.Helper()
	for r := range s.Replicas() {
		if err := replicaProblem(s, r); err != "" {
			t.Fatalf("at %s: replica %s: %s\n%s", s.Index(), r.ID, err, replicaLine(r))
		}
	}
	for m := range s.Models() {
		if m.Want < m.Spec.Replicas.Min || m.Want > m.Spec.Replicas.Max {
			t.Fatalf("at %s: model %s wants %d of %+v", s.Index(), m.Name(), m.Want, m.Spec.Replicas)
		}
		if m.Deleting && len(slices.Collect(s.ReplicasOf(m.Name()))) == 0 {
			t.Fatalf("at %s: model %s is being deleted and has no replica, but its row is there", s.Index(), m.Name())
		}
		if failedRows(s, m.Name()) > maxFailedRows {
			t.Fatalf("at %s: model %s keeps %d failed rows", s.Index(), m.Name(), failedRows(s, m.Name()))
		}
	}
	for k := range s.specs.all() {
		if !specNeeded(s, k) {
			t.Fatalf("at %s: the spec %q is kept for nobody", s.Index(), k)
		}
	}
	checkCards(t, s)
}

func replicaProblem(s *State, r *fleet.Replica) string {
	_, known := s.Model(r.Model)
	_, spec := s.Spec(r.Model, r.Generation)
	switch {
	case !known:
		return "its model is gone"
	case !spec:
		return "the spec of its generation is gone"
	case r.State == fleet.Ready && r.Door == nil:
		return "ready without a door"
	case r.State.Live() != (r.Drain == nil):
		return "a drain and its state disagree"
	case r.State.Live() && slices.ContainsFunc(r.Shards, func(s fleet.Shard) bool { return s.Released }):
		return "it is to run, but a claim is released"
	case r.Released() && r.State != fleet.Failed:
		return "every claim is released, but its row is there"
	case r.State == fleet.Stopped:
		return "a stopped replica has no row"
	}
	return ""
}

func failedRows(s *State, model string) int {
	n := 0
	for r := range s.ReplicasOf(model) {
		if r.State == fleet.Failed && r.Released() {
			n++
		}
	}
	return n
}

func specNeeded(s *State, k string) bool {
	for m := range s.Models() {
		if specKey(m.Name(), m.Generation) == k {
			return true
		}
	}
	for r := range s.Replicas() {
		if specKey(r.Model, r.Generation) == k {
			return true
		}
	}
	return false
}

// checkCards computes from the rows alone what each card gives, and finds every claim beyond it, unless an observation is to blame and the
// replica is marked.
func checkCards(t testing.TB, s *State) {
	t.Helper()
	type card struct{ node, gpu string }
	held := map[card][]fleet.Claim{}
	by := map[card][]*fleet.Replica{}
	for r := range s.Replicas() {
		for _, shard := range r.Shards {
			if shard.Released {
				continue
			}
			for _, c := range shard.Claims {
				k := card{shard.Node, c.GPU}
				held[k] = append(held[k], c)
				by[k] = append(by[k], r)
			}
		}
	}
	for k, claims := range held {
		n, ok := s.Node(k.node)
		if !ok {
			t.Fatalf("at %s: unreleased claims on %v, a node that is not there", s.Index(), k)
		}
		mark := ""
		if g, ok := n.GPU(k.gpu); !ok {
			mark = markDeviceGone
		} else if overfull(claims, g.Memory) {
			mark = markOvercommitted
		}
		for _, r := range by[k] {
			if mark != "" && !slices.Contains(r.Marks, mark) {
				t.Fatalf("at %s: %v of %s is %q, but it is not marked", s.Index(), k, r.ID, mark)
			}
		}
		if got := len(slices.Collect(keysOf(s.Claims(k.node, k.gpu)))); got != len(claims) {
			t.Fatalf("at %s: the index holds %d claims of %v; the rows have %d", s.Index(), got, k, len(claims))
		}
	}
}

func keysOf(claims func(func(string, fleet.Bytes) bool)) func(func(string) bool) {
	return func(yield func(string) bool) {
		claims(func(k string, _ fleet.Bytes) bool { return yield(k) })
	}
}

// overfull is written anew, not the machine's own exceeds: two views of one rule.
func overfull(claims []fleet.Claim, memory fleet.Bytes) bool {
	whole, sum := 0, fleet.Bytes(0)
	for _, c := range claims {
		if c.Share == 0 {
			whole++
		}
		sum += c.Share
	}
	return whole > 1 || whole == 1 && len(claims) > 1 || sum > memory
}
