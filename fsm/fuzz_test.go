package fsm

import (
	"bytes"
	"testing"
)

// FuzzDecode gives bytes to the whole way of an entry. The fuzzer cannot guess checksums, so the content is wrapped in a right envelope as well:
// what gets that far must be applied without a panic, hold the invariants, and come back equal from a snapshot.
func FuzzDecode(f *testing.F) {
	g := newGenerator(1)
	base := sample(f)
	for range 60 {
		data, err := Encode(Meta{Request: "id", At: 1}, g.command(base.State()))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data[headerSize:])
	}
	f.Add([]byte(`{"kind":"plan","meta":{"level":1},"body":{"plan":{"items":[{}]},"term":1}}`))
	f.Add([]byte(`{"kind":"replica.transitions","meta":{"level":1},"body":{"node":"n1","instance":1,"items":[{"replica":"r-1.7.1","rank":-1,"order":"1.7"}]}}`))
	f.Add([]byte(`{"kind":"node.register","meta":{"level":1},"body":{"registration":{"name":"n1","id":"id-n1","instance":9,"running":[{"replica":"r-1.7.1","rank":-1}]}}}`))
	saved := snapshotOf(f, base.State())
	f.Fuzz(func(t *testing.T, data []byte) {
		if _, _, err := Decode(data); err == nil {
			t.Logf("the raw bytes are an entry: %q", data)
		}
		m := New()
		must(t, m.Restore(bytes.NewReader(saved)))
		before := m.State()
		if _, err := m.Apply(1000, entry(string(data))); err != nil {
			if m.State() != before {
				t.Fatal("an entry that stops the peer has changed the state")
			}
			return
		}
		checkInvariants(t, m.State())
		checkRoundTrip(t, m.State())
	})
}

// FuzzRestore gives bytes as a snapshot, also with a right trailer put behind them. What is taken must be written back so that it is taken again.
func FuzzRestore(f *testing.F) {
	good := snapshotOf(f, sample(f).State())
	f.Add(good)
	f.Add(snapshotOf(f, newState()))
	f.Add(good[:len(good)/2])
	for _, line := range bytes.SplitAfter(good, []byte("\n")) {
		f.Add(append(bytes.SplitAfter(good, []byte("\n"))[0], line...))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		for _, file := range [][]byte{data, sealed(data)} {
			m := New()
			before := m.State()
			if err := m.Restore(bytes.NewReader(file)); err != nil {
				if m.State() != before {
					t.Fatal("a refused file has changed the state")
				}
				continue
			}
			again := snapshotOf(t, m.State())
			must(t, New().Restore(bytes.NewReader(again)))
			m.State().Table()
			for n := range m.State().Nodes() {
				m.State().Orders(n.Name)
			}
		}
	})
}

// sealed puts the trailer that fits behind the lines of a file.
func sealed(data []byte) []byte {
	if i := bytes.LastIndex(data, []byte(trailerStart)); i >= 0 {
		data = data[:i]
	}
	in := newSnapshotReader(bytes.NewReader(nil))
	in.sum.Write(data)
	out := snapshotWriter{sum: in.sum, records: bytes.Count(data, []byte("\n")) - 1}
	return append(bytes.Clone(data), lineOf(out.trailer())...)
}
