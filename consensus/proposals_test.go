package consensus

import (
	"bytes"
	"testing"

	"berth/fsm"
)

// Only the very bytes that were proposed are known again, and once: equal ones from the disk or from another peer are read as everywhere else.
func TestOnlyTheVeryBytesThatWereProposedAreKnownAgain(t *testing.T) {
	var p proposals
	e, err := fsm.NewEntry(fsm.Meta{}, fsm.ModelScale{Model: "m", Replicas: 2})
	if err != nil {
		t.Fatal(err)
	}
	data := e.Data()
	if p.take(data) != nil || p.take(nil) != nil {
		t.Error("something was known before anything was proposed")
	}
	p.add(e)
	if p.take(bytes.Clone(data)) != nil || p.take(data[:len(data)-1]) != nil || p.take(data[1:]) != nil {
		t.Error("other bytes were taken for those proposed")
	}
	if p.take(data) != e {
		t.Error("what was proposed was not known again")
	}
	if p.take(data) != nil || len(p.made) != 0 {
		t.Error("it was known twice")
	}
}
