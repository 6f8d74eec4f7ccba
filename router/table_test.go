package router

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"berth/fleet"
)

// TestAllPeersDead: the data path goes on, and a router restarted meanwhile serves from its disk and says how old that is.
func TestAllPeersDead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, nil)
		c.set(model("m", c.engine("a", "10.0.0.1", ok("a"))))
		c.peers.change(func() { c.peers.dead = true })
		for range 60 {
			time.Sleep(30 * time.Second)
			if a := c.post(chatPath, chatBody); a.status != 200 {
				t.Fatalf("%d %s", a.status, a.body)
			}
		}
		c.end()
		c.start()
		for range 60 {
			if a := c.post(chatPath, chatBody); a.status != 200 {
				t.Fatalf("restarted: %d %s", a.status, a.body)
			}
			time.Sleep(30 * time.Second)
		}
		a := c.get("http://" + opsAt + "/readyz")
		if a.status != 200 || !strings.Contains(a.body, "index 0.1, confirmed 1h0m") || !strings.Contains(a.body, "stale") {
			t.Errorf("%d %s", a.status, a.body)
		}
		var shown struct {
			Age   float64 `json:"age_seconds"`
			Stale bool
		}
		a = c.get("http://" + opsAt + "/table")
		if err := json.Unmarshal([]byte(a.body), &shown); err != nil || shown.Age < 3590 || shown.Age > 3700 || !shown.Stale {
			t.Errorf("%v %s", err, a.body)
		}
		if strings.Contains(a.body, "key-a") || !strings.Contains(a.body, `"key":"***"`) {
			t.Errorf("the table shows a key: %s", a.body)
		}
		c.peers.change(func() { c.peers.dead = false })
		time.Sleep(4 * time.Second)
		if a := c.get("http://" + opsAt + "/readyz"); strings.Contains(a.body, "stale") {
			t.Errorf("peers are back: %s", a.body)
		}
	})
}

// TestReconnectTakesTheWholeTable: after a failure the router does not ask for what is newer than what it has.
func TestReconnectTakesTheWholeTable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, nil)
		c.set(model("m"))
		if got := c.asked(); got.IsZero() {
			t.Error("it asks for the whole again though nothing failed")
		}
		c.peers.change(func() { c.peers.dead = true })
		time.Sleep(time.Minute)
		if got := c.asked(); !got.IsZero() {
			t.Errorf("after a failure it asks for what is newer than %s", got)
		}
		c.peers.change(func() { c.peers.dead = false })
		time.Sleep(4 * time.Second)
		if got := c.asked(); got.IsZero() {
			t.Error("it asks for the whole again though it has it")
		}
	})
}

func TestBeforeTheFirstTable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, nil)
		for _, a := range []answer{c.post(chatPath, chatBody), c.get(base + "/v1/models"), c.get(base + "/v1/models/m")} {
			if a.apiError(t); a.status != 503 || a.header.Get("Retry-After") == "" {
				t.Errorf("%d %s", a.status, a.body)
			}
		}
		if a := c.get("http://" + opsAt + "/readyz"); a.status != 503 || !strings.Contains(a.body, "no routing table yet") {
			t.Errorf("%d %s", a.status, a.body)
		}
		if a := c.get("http://" + opsAt + "/livez"); a.status != 200 {
			t.Errorf("%d %s", a.status, a.body)
		}
		c.set(model("m", c.engine("a", "10.0.0.1", ok("a"))))
		if a := c.post(chatPath, chatBody); a.status != 200 {
			t.Errorf("%d %s", a.status, a.body)
		}
		if a := c.get("http://" + opsAt + "/readyz"); a.status != 200 {
			t.Errorf("%d %s", a.status, a.body)
		}
	})
}

func TestNoOlderAndNoForeignTable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, nil)
		row := model("m", c.engine("a", "10.0.0.1", ok("a")))
		c.peers.change(func() { c.peers.table.Index = fleet.Index{Epoch: 2, N: 10} })
		c.set(row)
		for name, change := range map[string]func(){
			"older epoch":     func() { c.peers.table.Index = fleet.Index{Epoch: 1, N: 99} },
			"older index":     func() { c.peers.table.Index = fleet.Index{Epoch: 2, N: 3} },
			"another cluster": func() { c.peers.table.Index, c.peers.table.Cluster = fleet.Index{Epoch: 9, N: 9}, "c2" },
		} {
			c.peers.change(func() { change(); c.peers.table.Models = nil })
			for range 2 {
				time.Sleep(time.Minute)
				if a := c.post(chatPath, chatBody); a.status != 200 {
					t.Errorf("%s: the table was taken: %d %s", name, a.status, a.body)
				}
				c.end()
				c.start()
			}
		}
		c.peers.change(func() { c.peers.table.Index, c.peers.table.Cluster = fleet.Index{Epoch: 3}, "c1" })
		time.Sleep(4 * time.Second)
		if a := c.post(chatPath, chatBody); a.status != 404 {
			t.Errorf("newer epoch: %d %s", a.status, a.body)
		}
	})
}

func TestTableOnDisk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, nil)
		c.set(model("m", c.engine("a", "10.0.0.1", ok("a"))))
		path := filepath.Join(c.dir, "table.json")
		info, err := os.Stat(path)
		if err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%v %v: it holds keys", info.Mode(), err)
		}
		c.end()
		c.peers.change(func() { c.peers.dead = true })
		for _, content := range []string{"", "{", `{"version":99,"data":{}}`} {
			if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
				t.Fatal(err)
			}
			c.start()
			if a := c.post(chatPath, chatBody); a.status != 503 {
				t.Errorf("with %q on disk: %d", content, a.status)
			}
			c.end()
		}
	})
}

func TestDataDirectory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, nil)
		_, err := New(c.router.config)
		if err == nil || !strings.Contains(err.Error(), "in use") {
			t.Errorf("a second router in one data directory: %v", err)
		}
		c.end()
		if err := os.WriteFile(filepath.Join(c.dir, "boot"), []byte("x"), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := New(c.router.config); err == nil {
			t.Error("a boot count that cannot be read was begun anew")
		}
		if err := os.Remove(filepath.Join(c.dir, "boot")); err != nil && !errors.Is(err, fs.ErrNotExist) {
			t.Fatal(err)
		}
		c.start() // the failed ones have given the directory back
	})
}

func TestValidateListsAll(t *testing.T) {
	err := Config{Name: "-", Bind: "0.0.0.0:1", Ops: "0.0.0.0:1", Tick: -1, MaxBody: 5, KeepBody: 6, BodyMemory: 1}.Validate()
	if err == nil {
		t.Fatal("valid")
	}
	for _, want := range []string{"router name", "--data-dir", "no peer", "share the address", "--insecure-no-tls", "tick", "5", "memory"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q is missing in %v", want, err)
		}
	}
	if strings.Count(fmt.Sprint(err), "\n") < 7 {
		t.Errorf("not all problems at once: %v", err)
	}
}
