package berth_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// rooms lists, for each room, the rooms it may import; a room may always import what lies inside it, and internal/ is domain-free tools that
// every room but the pure ones may use. Imports point one way: towards fleet. A new edge is a decision: write it here, with its reason in the
// commit, and keep docs/architecture.md true.
var rooms = map[string][]string{
	"fleet":              {},
	"fleet/wire":         {"fleet"},
	"fsm":                {"fleet", "fleet/wire"},
	"scheduler":          {"fleet"},
	"idle":               {"fleet", "fleet/wire"},
	"status":             {"fleet", "fleet/wire"},
	"router":             {"fleet", "fleet/wire", "internal"},
	"agent":              {"fleet", "fleet/wire", "internal"},
	"gossip":             {"fleet", "fleet/wire", "internal"},
	"admin/client":       {"fleet", "fleet/wire", "internal"},
	"consensus":          {"fleet", "fleet/wire", "fsm", "internal"},
	"admin":              {"fleet", "fleet/wire", "fsm", "scheduler", "idle", "status", "admin/client", "internal"},
	"peer":               {"fleet", "fleet/wire", "fsm", "scheduler", "idle", "status", "gossip", "admin", "admin/client", "consensus", "internal"},
	"roles":              {"fleet", "fleet/wire", "router", "agent", "gossip", "admin/client", "internal"}, // an agent or a router with its gossip and its client
	"dev":                {"roles", "fleet", "fleet/wire", "fsm", "router", "agent", "gossip", "admin/client", "consensus", "peer", "internal"},
	"cmd":                {"roles", "fleet", "fleet/wire", "fsm", "router", "agent", "gossip", "admin/client", "consensus", "peer", "dev", "internal", "status"},
	"internal":           {},
	"internal/modelfile": {"fleet"}, // it fills fleet.ModelSpec
	"integration":        {"demo", "fleet", "fleet/wire", "fsm", "scheduler", "idle", "status", "router", "agent", "gossip", "admin", "admin/client", "consensus", "peer", "dev", "internal"},
	"demo":               {"fleet", "fleet/wire", "admin/client", "internal"},
	"bench":              {"demo", "fleet", "fleet/wire", "fsm", "scheduler", "idle", "status", "router", "agent", "gossip", "admin", "admin/client", "consensus", "peer", "dev", "internal"},
	"examples":           {},
	"deploy":             {},
}

// libraries lists the rooms that may import a library; the others must not know that it exists.
var libraries = map[string][]string{
	"github.com/go-json-experiment/json":  {"fsm"},
	"github.com/hashicorp/raft":           {"consensus"},
	"github.com/hashicorp/raft-boltdb":    {"consensus"},
	"go.etcd.io/bbolt":                    {"consensus"},
	"github.com/hashicorp/go-hclog":       {"consensus"},
	"github.com/hashicorp/memberlist":     {"gossip"},
	"github.com/armon/go-metrics":         {"consensus", "gossip", "internal"},
	"github.com/NVIDIA/go-nvml":           {"agent"},
	"github.com/gorilla/mux":              {"admin"},
	"github.com/spf13/cobra":              {"cmd"},
	"github.com/spf13/pflag":              {"cmd"},
	"github.com/getkin/kin-openapi":       {"admin"},
	"github.com/prometheus/client_golang": {"consensus", "router", "agent", "gossip", "admin", "peer", "internal", "cmd", "dev"},
	"github.com/prometheus/common":        {"router", "agent", "internal"},
	"github.com/openai/openai-go":         {},
	"go.yaml.in/yaml":                     {"internal"},
	"golang.org/x":                        {"agent", "consensus", "internal", "cmd", "gossip", "peer", "router", "dev", "admin"},
	"pgregory.net/rapid":                  {},
	"go.uber.org/goleak":                  {},
}

type file struct {
	path, room string
	ast        *ast.File
	test       bool
}

func TestImportsPointOneWay(t *testing.T) {
	for _, f := range goFiles(t) {
		for _, spec := range f.ast.Imports {
			path, _ := strconv.Unquote(spec.Path.Value)
			if target, ok := strings.CutPrefix(path, "berth/"); ok {
				checkRoom(t, f, target)
			} else if strings.Contains(strings.Split(path, "/")[0], ".") && !f.test {
				checkLibrary(t, f, path)
			}
		}
	}
}

func checkRoom(t *testing.T, f file, target string) {
	to := roomOf(t, target)
	if to == f.room || f.test && to == "internal" || slices.Contains(rooms[f.room], to) {
		return
	}
	if to == "internal/modelfile" && slices.Contains(rooms[f.room], "internal") {
		return
	}
	if f.test && slices.Contains([]string{"agent", "internal/modelfile", "fsm", "admin"}, to) && f.room != "fleet" {
		return // a test may use a neighbour's real parts: the simulated engine, the state machine, the parser, the server
	}
	t.Errorf("%s: the room %s must not import berth/%s; it may import %v (docs/architecture.md says why)", f.path, f.room, target, rooms[f.room])
}

func checkLibrary(t *testing.T, f file, path string) {
	for lib, allowed := range libraries {
		if path == lib || strings.HasPrefix(path, lib+"/") {
			top := strings.Split(f.room, "/")[0]
			if !slices.Contains(allowed, f.room) && !slices.Contains(allowed, top) {
				t.Errorf("%s: only %v may import %s", f.path, allowed, path)
			}
			return
		}
	}
	t.Errorf("%s: %s is not in the list of libraries; say in docs/dependencies.md why it earns its place", f.path, path)
}

func TestEveryPackageSaysWhatItOwns(t *testing.T) {
	documented := map[string]bool{}
	for _, f := range goFiles(t) {
		dir := filepath.Dir(f.path)
		if !f.test {
			documented[dir] = documented[dir] || f.ast.Doc != nil
		}
	}
	for dir, ok := range documented {
		if !ok {
			t.Errorf("%s: no file has a package comment that says what the package owns", dir)
		}
	}
}

func goFiles(t *testing.T) []file {
	t.Helper()
	var files []file
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name := d.Name()
		if d.IsDir() && path != "." && (strings.HasPrefix(name, ".") || name == "testdata" || name == "node_modules" || name == "bin") {
			return filepath.SkipDir
		}
		if _, err := os.Stat(filepath.Join(path, "go.mod")); d.IsDir() && path != "." && err == nil {
			return filepath.SkipDir // a module of its own, for a peer that we are measured against
		}
		if d.IsDir() || !strings.HasSuffix(name, ".go") || filepath.Dir(path) == "." {
			return nil
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ImportsOnly|parser.ParseComments)
		if err != nil {
			return err
		}
		files = append(files, file{path: path, room: roomOf(t, filepath.ToSlash(filepath.Dir(path))), ast: parsed, test: strings.HasSuffix(name, "_test.go")})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// roomOf returns the innermost room that a folder lies in.
func roomOf(t *testing.T, dir string) string {
	t.Helper()
	for d := dir; d != "."; d = filepath.ToSlash(filepath.Dir(d)) {
		if _, ok := rooms[d]; ok {
			return d
		}
	}
	t.Errorf("%s is in no room of the import table; add it", dir)
	return dir
}
