package fsm

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"testing"
)

// TestAnEntryThatIsNotReadAgainMakesTheSameState gives one machine the bytes of each command, as a follower gets them, and another what its proposer
// has read already.
func TestAnEntryThatIsNotReadAgainMakesTheSameState(t *testing.T) {
	seed := rand.Uint64()
	g := newGenerator(seed)
	follower, leader := sample(t), sample(t)
	for index := uint64(1000); index < 1400; index++ {
		e, err := NewEntry(Meta{Request: fmt.Sprint("id-", index%300), At: 1}, g.command(leader.State()))
		must(t, err)
		want, err := follower.Apply(index, bytes.Clone(e.Data()))
		must(t, err)
		got, err := leader.ApplyEntry(index, e)
		must(t, err)
		if got.Index != want.Index || got.Changed != want.Changed || (got.Err == nil) != (want.Err == nil) {
			t.Fatalf("seed %d, index %d: %+v, from the bytes %+v", seed, index, got, want)
		}
	}
	if leader.State().Fingerprint() != follower.State().Fingerprint() {
		t.Errorf("seed %d: the states differ", seed)
	}
}

func TestAnEntryThatWasDamagedInMemoryStopsThePeer(t *testing.T) {
	m := sample(t)
	before := m.State()
	e, err := NewEntry(Meta{}, ModelScale{Model: "m", Replicas: 2})
	must(t, err)
	e.Data()[headerSize+3] ^= 1
	if _, err := m.ApplyEntry(100, e); err == nil {
		t.Error("it was applied")
	}
	raise, err := NewEntry(Meta{}, LevelRaise{Level: Level + 1})
	must(t, err)
	if _, err := m.ApplyEntry(100, raise); err == nil {
		t.Error("a level that this release does not understand was applied")
	}
	if m.State() != before {
		t.Error("the state has changed")
	}
}
