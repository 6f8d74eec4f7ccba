package fsm

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

var freeze = flag.String("freeze", "", "make fixtures of this release, under this name, for every later one to open (make fixture NAME=...)")

const frozenDir = "testdata/frozen"

// TestFrozenSnapshots opens the snapshot that each release has left and holds every row against the text beside it. What a release has written
// must be read for ever, and written again byte for byte while the level has not been raised: peers of two releases compare fingerprints.
func TestFrozenSnapshots(t *testing.T) {
	if *freeze != "" {
		freezeSnapshot(t, filepath.Join(frozenDir, *freeze))
	}
	files, err := filepath.Glob(filepath.Join(frozenDir, "*.snapshot"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no snapshots in %s: %v", frozenDir, err)
	}
	for _, file := range files {
		data, err := os.ReadFile(file)
		must(t, err)
		want, err := os.ReadFile(strings.TrimSuffix(file, ".snapshot") + ".rows")
		must(t, err)
		s, _, err := Load(bytes.NewReader(data))
		if err != nil {
			t.Errorf("%s: %v", file, err)
			continue
		}
		if got := rendered(s); got != string(want) {
			t.Errorf("%s: %s", file, firstDifference(string(want), got))
		}
		if !bytes.Equal(snapshotOf(t, s), data) {
			t.Errorf("%s: written again it has other bytes", file)
		}
		checkInvariants(t, s)
	}
}

// rendered is a state as text, every field of every row.
func rendered(s *State) string {
	var b strings.Builder
	line := func(table, key string, row any) { b.WriteString(table + " " + key + " " + text(row) + "\n") }
	b.WriteString("index " + s.index.String() + "\n")
	line("core", "", s.core)
	renderTable(line, "server", s.servers)
	renderTable(line, "model", s.models)
	renderTable(line, "spec", s.specs)
	renderTable(line, "node", s.nodes)
	renderTable(line, "replica", s.replicas)
	renderTable(line, "request", s.requests)
	renderTable(line, "feed", s.feeds)
	renderTable(line, "stray", s.strays)
	return strings.ReplaceAll(b.String(), separator, "|")
}

func renderTable[T any](line func(table, key string, row any), name string, rows table[T]) {
	for k, row := range rows.all() {
		line(name, k, row)
	}
}

// freezeSnapshot makes a state by random commands that has something in every table, and leaves its snapshot and its rows.
func freezeSnapshot(t *testing.T, path string) {
	if _, err := os.Stat(path + ".snapshot"); err == nil {
		t.Fatalf("%s.snapshot exists; what is frozen is not made anew", path)
	}
	w := newWalk(t, 7, map[string]int{})
	for range 20_000 {
		w.step()
		if s := w.a.State(); hasEverything(s) {
			must(t, os.MkdirAll(frozenDir, 0o755))
			must(t, os.WriteFile(path+".snapshot", snapshotOf(t, s), 0o644))
			must(t, os.WriteFile(path+".rows", []byte(rendered(s)), 0o644))
			return
		}
	}
	t.Fatal("no state with something in every table has come")
}

func hasEverything(s *State) bool {
	past, drains, exits, doors := 0, 0, 0, 0
	for range s.pastSpecs() {
		past++
	}
	for r := range s.Replicas() {
		if r.Drain != nil {
			drains++
		}
		if r.Door != nil {
			doors++
		}
		for _, shard := range r.Shards {
			if shard.Exit != nil {
				exits++
			}
		}
	}
	return past > 0 && drains > 0 && exits > 0 && doors > 0 && s.servers.size() > 0 && s.strays.size() > 0 && s.requests.size() > 20 && s.nodes.size() > 4
}
