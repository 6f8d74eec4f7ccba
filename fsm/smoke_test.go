package fsm

import (
	"bytes"
	"testing"
)

func TestSmoke(t *testing.T) {
	m := New()
	data, err := Encode(Meta{At: 1000}, ClusterCreate{ID: "c"})
	if err != nil {
		t.Fatal(err)
	}
	if o, err := m.Apply(1, data); err != nil || o.Err != nil || !o.Changed || o.Index.String() != "1.1" {
		t.Fatal(o, err)
	}
	var b bytes.Buffer
	if err := m.State().WriteSnapshot(&b); err != nil {
		t.Fatal(err)
	}
	n := New()
	if err := n.Restore(&b); err != nil {
		t.Fatal(err)
	}
	if n.State().Fingerprint() != m.State().Fingerprint() {
		t.Fatal("differ")
	}
}
