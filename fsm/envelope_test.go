package fsm

import (
	"errors"
	"hash/crc32"
	"strings"
	"testing"

	"berth/fleet"
)

// entry makes a log entry with a right checksum from any text.
func entry(text string) []byte {
	sum := crc32.Checksum([]byte(text), castagnoli)
	return append([]byte{formatV1, byte(sum >> 24), byte(sum >> 16), byte(sum >> 8), byte(sum)}, text...)
}

func TestEnvelope(t *testing.T) {
	data, err := Encode(Meta{Request: "id", By: "alice", At: 1_796_083_200_000}, ModelScale{Model: "m", Replicas: 2})
	must(t, err)
	want := `{"kind":"model.scale","meta":{"request":"id","at":"2026-12-01T00:00:00.000Z","by":"alice","level":1},"body":{"model":"m","replicas":2}}`
	if got := string(data[headerSize:]); got != want {
		t.Errorf("the form of an entry has changed, which every log on disk depends on:\ngot  %s\nwant %s", got, want)
	}
	meta, c, err := Decode(data)
	if err != nil || c != (ModelScale{Model: "m", Replicas: 2}) || meta.By != "alice" {
		t.Fatalf("got %+v %+v %v", meta, c, err)
	}
}

// TestDamageStopsThePeer flips every bit of an entry: each must be found by Verify alone, and change nothing.
func TestDamageStopsThePeer(t *testing.T) {
	m := sample(t)
	before := m.State()
	good, err := Encode(Meta{}, ModelScale{Model: "m", Replicas: 2})
	must(t, err)
	for i := range len(good) * 8 {
		data := append([]byte(nil), good...)
		data[i/8] ^= 1 << (i % 8)
		if Verify(data) == nil {
			t.Fatalf("bit %d flipped: Verify finds nothing", i)
		}
		if _, err := m.Apply(100, data); err == nil {
			t.Fatalf("bit %d flipped: Apply takes it", i)
		}
	}
	for _, data := range [][]byte{nil, {1}, good[:headerSize], good[:len(good)-1]} {
		if _, err := m.Apply(100, data); err == nil {
			t.Fatalf("%q: Apply takes it", data)
		}
	}
	if m.State() != before {
		t.Fatal("the state has changed")
	}
}

// TestUnknownStopsThePeer is about entries that are whole but of another release.
func TestUnknownStopsThePeer(t *testing.T) {
	m := sample(t)
	before := m.State()
	for name, text := range map[string]string{
		"kind":            `{"kind":"model.rename","meta":{"level":1},"body":{}}`,
		"field":           `{"kind":"model.scale","meta":{"level":1},"body":{"model":"m","replicas":2,"surge":1}}`,
		"field of meta":   `{"kind":"model.scale","meta":{"level":1,"tenant":"x"},"body":{"model":"m","replicas":2}}`,
		"nested field":    `{"kind":"model.apply","meta":{"level":1},"body":{"spec":{"engine":{"image":"x"}}}}`,
		"level":           `{"kind":"model.scale","meta":{"level":2},"body":{"model":"m","replicas":2}}`,
		"more behind":     `{"kind":"model.scale","meta":{"level":1},"body":{"model":"m","replicas":2}}{}`,
		"not JSON":        `kind: model.scale`,
		"body is no body": `{"kind":"model.scale","meta":{"level":1},"body":[]}`,
		"raise beyond":    `{"kind":"level.raise","meta":{"level":1},"body":{"level":2}}`,
	} {
		if _, err := m.Apply(100, entry(text)); err == nil {
			t.Errorf("%s: applied", name)
		}
	}
	if m.State() != before {
		t.Fatal("the state has changed")
	}
}

type unknownCommand struct{}

func (unknownCommand) Kind() string { return "model.rename" }

func TestEncodeRefusesWhatItCouldNotReadBack(t *testing.T) {
	for name, try := range map[string]struct {
		meta Meta
		c    Command
		code fleet.Code
	}{
		"unknown kind":      {Meta{}, unknownCommand{}, fleet.BadRequest},
		"newer level":       {Meta{Level: Level + 1}, FreezeSet{}, fleet.BadRequest},
		"year 20000":        {Meta{At: 568_971_820_800_000}, FreezeSet{}, fleet.BadRequest},
		"too large":         {Meta{}, ReplicaStop{Replica: "r", Reason: strings.Repeat("x", MaxCommand)}, fleet.TooLarge},
		"negative duration": {Meta{}, NodeDrain{Node: "n", Deadline: -1}, fleet.BadRequest},
	} {
		if _, err := Encode(try.meta, try.c); !errors.Is(err, try.code) {
			t.Errorf("%s: got %v, want %s", name, err, try.code)
		}
	}
}

// TestEveryKindIsKnown guards the table of kinds: each command is decoded to its own type.
func TestEveryKindIsKnown(t *testing.T) {
	for _, c := range []Command{
		ClusterCreate{}, ServerAnnounce{}, ServerForget{}, LevelRaise{}, ModelApply{}, ModelScale{}, RolloutPause{}, ModelDelete{}, NodeRegister{}, NodeAdmin{},
		NodeDrain{}, NodeDrainEnd{}, NodeLabel{}, NodeForget{}, NodeLiveness{}, PlanApply{}, ReplicaTransitions{}, ReplicaStop{}, ReplicaRestart{},
		ReplicaFail{}, ReplicaWithdraw{}, SettingsSet{}, FreezeSet{}, EpochRaise{},
	} {
		data, err := Encode(Meta{}, c)
		if err != nil {
			t.Errorf("%s: %v", c.Kind(), err)
			continue
		}
		_, got, err := Decode(data)
		if err != nil || got.Kind() != c.Kind() {
			t.Errorf("%s: decoded as %v, %v", c.Kind(), got, err)
		}
	}
}
