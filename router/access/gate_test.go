package access

import (
	"crypto/sha256"
	"encoding/hex"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func sum(key string) string {
	s := sha256.Sum256([]byte(key))
	return hex.EncodeToString(s[:])
}

func gate(t *testing.T) (*Gate, *Client) {
	t.Helper()
	f := File{Version: 1, Keys: []Key{{Name: "search", SHA256: sum("k1"), RequestsPerMinute: 60, MaxInFlight: 20}, {Name: "other", SHA256: sum("k2"), Models: []string{"m"}}},
		Models: []Model{{Name: "m", MaxInFlight: 3}}}
	if err := f.Validate(); err != nil {
		t.Fatal(err)
	}
	g := New(f)
	c, ok := g.Client("k1")
	if !ok || c.Name != "search" {
		t.Fatalf("%v %v", c, ok)
	}
	return g, c
}

func TestOnlyKeysOpen(t *testing.T) {
	g, _ := gate(t)
	for _, key := range []string{"", "k3", sum("k1")} {
		if c, ok := g.Client(key); ok {
			t.Errorf("%q opens as %s", key, c.Name)
		}
	}
}

func TestRate(t *testing.T) {
	g, c := gate(t)
	now := time.Unix(1000, 0)
	for i := range 10 {
		leave, denied := g.Enter(c, "n", now)
		if denied != nil {
			t.Fatalf("request %d of a burst of ten: %s", i, denied.Message)
		}
		leave()
	}
	_, denied := g.Enter(c, "n", now)
	if denied == nil || denied.RetryAfter != time.Second {
		t.Fatalf("%+v, want to come again in a second", denied)
	}
	if _, denied := g.Enter(c, "n", now.Add(time.Second)); denied != nil {
		t.Error(denied.Message)
	}
	if _, denied := g.Enter(c, "n", now.Add(time.Second)); denied == nil {
		t.Error("two requests in a second, at sixty a minute")
	}
}

// TestInFlight: what the model's limit denies takes nothing from the key's, and a request that left makes room.
func TestInFlight(t *testing.T) {
	g, c := gate(t)
	other, _ := g.Client("k2")
	now := time.Unix(1000, 0)
	var leave func()
	for range 3 {
		var denied *Denial
		if leave, denied = g.Enter(other, "m", now); denied != nil {
			t.Fatal(denied.Message)
		}
	}
	for range 100 {
		if _, denied := g.Enter(c, "m", now); denied == nil || !strings.Contains(denied.Message, "the model m") {
			t.Fatalf("%+v", denied)
		}
	}
	leave()
	if _, denied := g.Enter(c, "m", now); denied != nil {
		t.Error(denied.Message)
	}
	if _, denied := g.Enter(other, "n", now); denied == nil || denied.RetryAfter != 0 {
		t.Errorf("a model that the key may not use: %+v", denied)
	}
}

// TestANewFile: keys come and go at once, limits change, and what is in flight and used of a rate stays counted.
func TestANewFile(t *testing.T) {
	g, c := gate(t)
	now := time.Unix(1000, 0)
	leave, denied := g.Enter(c, "m", now)
	if denied != nil {
		t.Fatal(denied.Message)
	}
	g.Take(File{Version: 1, Keys: []Key{{Name: "search", SHA256: sum("k9"), MaxInFlight: 2, RequestsPerMinute: 60}}})
	for key, want := range map[string]bool{"k1": false, "k2": false, "k9": true} {
		if _, ok := g.Client(key); ok != want {
			t.Errorf("%s opens: %v", key, ok)
		}
	}
	c, _ = g.Client("k9")
	if _, denied := g.Enter(c, "m", now); denied != nil {
		t.Errorf("the second of two: %s", denied.Message)
	}
	if _, denied := g.Enter(c, "m", now); denied == nil {
		t.Error("the third of two, one of which came under the old file")
	}
	leave()
	for i := range 8 { // ten at once, two of which are used
		l, denied := g.Enter(c, "m", now)
		if denied != nil {
			t.Fatalf("request %d after the change: %s", i, denied.Message)
		}
		l()
	}
	if _, denied := g.Enter(c, "m", now); denied == nil {
		t.Error("a new file gives a new burst")
	}
}

func TestFileOfKeys(t *testing.T) {
	path := filepath.Join(t.TempDir(), "keys.yaml")
	for text, want := range map[string]string{
		"version: 1\nkeys: [{name: a, sha256: " + sum("x") + ", max_in_flight: 4}]\nmodels: [{name: acme/Qwen-X:Q4, requests_per_minute: 9}]\n": "",
		"version: 2\nkeys: [{name: a, sha256: " + sum("x") + "}]\n":                                                                             "version is 2",
		"version: 1\n": "there is no key",
		"version: 1\nkeys: [{name: a, sha256: abc}, {name: a, sha256: " + sum("x") + "}]\n": "two keys have the name",
		"version: 1\nkeys: [{name: a, sha256: abc}]\n":                                      "64 hexadecimal digits",
		"version: 1\nkeys: [{name: a, key: secret}]\n":                                      "sha256",
	} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := Read(path); (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
}
