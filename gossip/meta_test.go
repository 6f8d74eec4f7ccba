package gossip

import (
	"reflect"
	"strings"
	"testing"
)

// largest is what the largest usual member says: the id of a cluster, the longest name of a node, two addresses of IPv6 hosts.
var largest = Meta{
	Role: Router, Name: strings.Repeat("n", 63), Cluster: "c-" + strings.Repeat("0", 32), MaxLevel: 1000, Digest: 1<<64 - 1,
	Addresses: map[string]string{"http": "[2001:db8:1111:2222:3333:4444:5555:6666]:65535", "raft": "[2001:db8:1111:2222:3333:4444:5555:6666]:65535"},
}

func TestMetaFitsAndReturns(t *testing.T) {
	for name, m := range map[string]Meta{
		"largest": largest,
		"empty":   {},
		"leaving": {Role: Peer, Name: "peer-1", leaving: true, Addresses: map[string]string{"http": ":7300"}},
	} {
		b, err := m.encode()
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if got, err := decodeMeta(append(b, "what a later release appends"...)); err != nil || !reflect.DeepEqual(got, m) {
			t.Errorf("%s: %+v, %v; want %+v", name, got, err, m)
		}
	}
}

func TestMetaOverBudgetIsAnError(t *testing.T) {
	m := largest
	m.Addresses = map[string]string{"http": strings.Repeat("long.", 40) + "example:7300"}
	if _, err := m.encode(); err == nil || !strings.Contains(err.Error(), "at most 256 fit") || !strings.Contains(err.Error(), m.Name) {
		t.Errorf("error %v", err)
	}
}

func TestMetaOfAnotherVersionIsRefused(t *testing.T) {
	b, _ := largest.encode()
	b[0]++
	if _, err := decodeMeta(b); err == nil {
		t.Error("it was read")
	}
}

func FuzzMeta(f *testing.F) {
	b, _ := largest.encode()
	f.Add(b)
	f.Add(b[:20])
	f.Add([]byte{1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 255, 255, 255, 255, 255, 255, 255, 255, 255, 1})
	f.Fuzz(func(t *testing.T, b []byte) {
		m, err := decodeMeta(b)
		if err != nil {
			return
		}
		again, err := m.encode()
		if err != nil {
			return // it was longer than we write
		}
		if got, err := decodeMeta(again); err != nil || !reflect.DeepEqual(got, m) {
			t.Errorf("%+v became %+v, %v", m, got, err)
		}
	})
}

func TestLabels(t *testing.T) {
	if id, n, ok := parseLabel(label("node#7", 42)); id != "node#7" || n != 42 || !ok {
		t.Errorf("%q %d %v", id, n, ok)
	}
	for _, s := range []string{"", "node", "#3", "node#", "node#-1", "node#x"} {
		if _, _, ok := parseLabel(s); ok {
			t.Errorf("%q was read", s)
		}
	}
}

func TestValidateListsEverything(t *testing.T) {
	err := Config{
		ID: "a#b", Bind: "192.0.2.1", Advertise: "x", Seeds: []string{"192.0.2.1:port", "http://peer-1"},
		Keys: [][]byte{make([]byte, 7)}, Label: strings.Repeat("l", 300),
	}.Validate()
	if err == nil {
		t.Fatal("nothing is wrong")
	}
	for _, want := range []string{"a#b", `"192.0.2.1"`, `"x"`, "192.0.2.1:port", "http://peer-1", "7 bytes", "300 bytes"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q is not named in %v", want, err)
		}
	}
}

func TestSeedForms(t *testing.T) {
	for seed, want := range map[string][2]string{
		"peer-1.example.net":      {"peer-1.example.net", "7302"},
		"peer-1.example.net:9000": {"peer-1.example.net", "9000"},
		"192.0.2.1":               {"192.0.2.1", "7302"},
		"[2001:db8::1]":           {"2001:db8::1", "7302"},
		"2001:db8::1":             {"2001:db8::1", "7302"},
		"[2001:db8::1]:9000":      {"2001:db8::1", "9000"},
	} {
		if host, port, err := splitSeed(seed); host != want[0] || port != want[1] || err != nil {
			t.Errorf("%s: %s %s %v", seed, host, port, err)
		}
	}
}
