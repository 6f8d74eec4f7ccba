package fsm

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"berth/fleet"
)

// sample returns a machine with something in every table.
func sample(t testing.TB) *Machine {
	t.Helper()
	m := New()
	for i, c := range []Command{
		ClusterCreate{ID: "c1"},
		ServerAnnounce{Server: fleet.Server{ID: "peer-1", HTTP: "192.0.2.1:7300", MaxLevel: 1}},
		register("n1", "fa", 4), register("n2", "fa", 4),
		ModelApply{Spec: model("m", 1, 1)}, ModelApply{Spec: model("pair", 2, 2)},
		PlanApply{Plan: fleet.Plan{Items: []fleet.PlanItem{placeItem("m", 1, "n1/0"), placeItem("pair", 1, "n1/1", "n1/2", "n2/1", "n2/2")}}},
	} {
		if o := applyAt(t, m, uint64(i+1), Meta{Request: fmt.Sprintf("id-%d", i)}, c); o.Err != nil || slicesErr(o.Items) != nil {
			t.Fatalf("%s: %v %v", c.Kind(), o.Err, o.Items)
		}
	}
	return m
}

func TestRestoreRefusesWhatWasAltered(t *testing.T) {
	good := snapshotOf(t, sample(t).State())
	m := sample(t)
	applyAt(t, m, 100, Meta{}, ModelApply{Spec: model("newer", 1, 1)})
	before := m.State()
	refused := func(name string, data []byte) {
		t.Helper()
		if err := m.Restore(bytes.NewReader(data)); !errors.Is(err, fleet.BadRequest) && !errors.Is(err, fleet.LevelTooOld) {
			t.Errorf("%s: got %v", name, err)
		}
		if _, err := Inspect(bytes.NewReader(data)); err == nil {
			t.Errorf("%s: Inspect takes it", name)
		}
		if m.State() != before {
			t.Fatalf("%s: the state was replaced", name)
		}
	}
	for at := 0; at < len(good); at += 97 {
		for bit := range 8 {
			data := bytes.Clone(good)
			data[at] ^= 1 << bit
			refused(fmt.Sprintf("bit %d of byte %d flipped", bit, at), data)
		}
	}
	for cut := 0; cut < len(good); cut += 97 {
		refused(fmt.Sprintf("cut at %d", cut), good[:cut])
	}
	parts := partsOf(t, good)
	for i := range parts {
		refused(fmt.Sprintf("without part %d", i), bytes.Join(slices.Delete(slices.Clone(parts), i, i+1), nil))
		refused(fmt.Sprintf("with part %d twice", i), bytes.Join(slices.Insert(slices.Clone(parts), i, parts[i]), nil))
	}
	refused("foreign", []byte("PK\x03\x04 something else"))
	refused("zeros", make([]byte, 4096))
	refused("more behind it", append(bytes.Clone(good), '\n'))
	refused("newer level", bytes.Replace(good, []byte(`"level":1`), []byte(`"level":2`), 1))
	refused("newer format", bytes.Replace(good, []byte(`"berth_snapshot":1`), []byte(`"berth_snapshot":2`), 1))
	if err := m.Restore(bytes.NewReader(good)); err != nil {
		t.Fatalf("the file itself: %v", err)
	}
}

func TestNewerSnapshotIsCalledNewer(t *testing.T) {
	data := bytes.Replace(snapshotOf(t, sample(t).State()), []byte(`"level":1`), []byte(`"level":99`), 1)
	if _, err := Inspect(bytes.NewReader(data)); !errors.Is(err, fleet.LevelTooOld) {
		t.Fatalf("got %v", err)
	}
}

// partsOf cuts a snapshot into its header and its blocks, by the lengths that they say.
func partsOf(t testing.TB, data []byte) [][]byte {
	t.Helper()
	const head = 4 + 1 + 4
	n := bytes.IndexByte(data, '\n') + 1
	parts := [][]byte{data[:n]}
	for rest := data[n:]; len(rest) > 0; {
		size := head + int(binary.LittleEndian.Uint32(rest))
		parts, rest = append(parts, rest[:size]), rest[size:]
	}
	if len(parts) < 8 {
		t.Fatalf("the sample has only %d blocks", len(parts))
	}
	return parts
}

func recordsOf(s *State) int {
	return 1 + s.servers.size() + s.models.size() + s.specs.size() - s.models.size() + s.nodes.size() + s.replicas.size() + s.requests.size() + s.feeds.size() + s.strays.size()
}

func TestInspect(t *testing.T) {
	s := sample(t).State()
	data := snapshotOf(t, s)
	info, err := Inspect(bytes.NewReader(data))
	must(t, err)
	if info.Fingerprint != s.Fingerprint() || info.Cluster != "c1" || info.Index != s.Index() || info.Bytes != int64(len(data)) ||
		info.Records != recordsOf(s) {
		t.Fatalf("got %+v", info)
	}
}

func TestEqualStatesGiveEqualBytes(t *testing.T) {
	a, b := sample(t).State(), sample(t).State()
	if !bytes.Equal(snapshotOf(t, a), snapshotOf(t, b)) || a.Fingerprint() != b.Fingerprint() {
		t.Fatal("two machines with equal entries differ")
	}
	checkRoundTrip(t, a)
	m := sample(t)
	applyAt(t, m, 100, Meta{}, FreezeSet{})
	if m.State().Fingerprint() == a.Fingerprint() {
		t.Fatal("another index, but the same fingerprint")
	}
}

// TestRestoreRaisesTheEpoch is what a restore does to a file before raft gets it.
func TestRestoreRaisesTheEpoch(t *testing.T) {
	old := sample(t).State()
	if _, err := old.WithIdentity("c1", 1, 1); !errors.Is(err, fleet.StaleEpoch) {
		t.Fatalf("an epoch that does not rise: %v", err)
	}
	s, err := old.WithIdentity("c2", 1_796_083_200, 1)
	must(t, err)
	m := restored(t, s)
	if c := m.State().Cluster(); c.ID != "c2" || c.Epoch != 1_796_083_200 || !old.Index().Before(m.State().Index()) {
		t.Fatalf("got %+v at %s", c, m.State().Index())
	}
	place := PlanApply{Plan: fleet.Plan{Items: []fleet.PlanItem{placeItem("m", 1, "n1/3")}}}
	if o := applyAt(t, m, 20, Meta{}, place); o.Items[0] == nil {
		t.Fatal("a node that has not reported since the restore gets a replica")
	}
	applyAt(t, m, 21, Meta{}, register("n1", "fa", 4))
	if o := applyAt(t, m, 22, Meta{}, place); o.Items[0] != nil {
		t.Fatal(o.Items[0])
	}
	if _, ok := m.State().Replica("r-1796083200.22.1"); !ok {
		t.Fatal("the id of a replica does not carry the new epoch")
	}
}

type failingWriter struct{ room int }

func (w *failingWriter) Write(p []byte) (int, error) {
	if w.room -= len(p); w.room < 0 {
		return 0, errors.New("disk full")
	}
	return len(p), nil
}

func TestWriteSnapshotReportsAFullDisk(t *testing.T) {
	s := sample(t).State()
	for _, room := range []int{0, 100, len(snapshotOf(t, s)) - 1} {
		if err := s.WriteSnapshot(&failingWriter{room}); err == nil || !strings.Contains(err.Error(), "disk full") {
			t.Errorf("with room for %d bytes: %v", room, err)
		}
	}
}
