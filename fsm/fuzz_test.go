package fsm

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"hash/crc32"
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

// FuzzRestore gives bytes as a snapshot, and as the rows of each table of one that is right otherwise: the fuzzer cannot guess checksums. What
// is taken must be written back so that it is taken again.
func FuzzRestore(f *testing.F) {
	good := snapshotOf(f, sample(f).State())
	f.Add(good)
	f.Add(snapshotOf(f, newState()))
	f.Add(good[:len(good)/2])
	for _, part := range partsOf(f, good)[1:] {
		f.Add(part[9:])
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		tryRestore(t, data)
		for table := tableCore; table <= tableStrays; table++ {
			tryRestore(t, sealed(t, table, data))
		}
	})
}

func tryRestore(t *testing.T, file []byte) {
	m := New()
	before := m.State()
	if err := m.Restore(bytes.NewReader(file)); err != nil {
		if m.State() != before {
			t.Fatal("a refused file has changed the state")
		}
		return
	}
	again := snapshotOf(t, m.State())
	must(t, New().Restore(bytes.NewReader(again)))
	m.State().Table()
	for n := range m.State().Nodes() {
		m.State().Orders(n.Name)
	}
}

// sealed makes a snapshot whose one table holds the data as it is, with the checksums, the count and the header that fit.
func sealed(t *testing.T, table byte, data []byte) []byte {
	head, err := json.Marshal(header{Format: snapshotFormat, Level: 1})
	must(t, err)
	file := append(head, '\n')
	rows := countRows(data)
	if table != tableCore {
		file = append(file, blockOf(tableCore, []byte{1, 0})...)
		rows++
	}
	file = append(file, blockOf(table, data)...)
	sum := sha256.Sum256(file)
	return append(file, blockOf(255, append(binary.LittleEndian.AppendUint64(nil, rows), sum[:]...))...)
}

// blockOf frames a block by hand: a second view of the form that package record writes.
func blockOf(table byte, body []byte) []byte {
	out := append(binary.LittleEndian.AppendUint32(nil, uint32(len(body))), table)
	sum := crc32.Checksum(append(bytes.Clone(out), body...), castagnoli)
	return append(binary.LittleEndian.AppendUint32(out, sum), body...)
}

func countRows(body []byte) uint64 {
	var rows uint64
	for len(body) > 0 {
		size, n := binary.Uvarint(body)
		if n <= 0 || size > uint64(len(body)-n) {
			break
		}
		body = body[n+int(size):]
		rows++
	}
	return rows
}
