package fsm

import (
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// allowedImports is everything that the room may import. A package that can tell the time, roll a die, open a file or a socket, start a
// goroutine for us or write a log is not in it.
var allowedImports = []string{
	"berth/fleet", "berth/fleet/wire", "berth/fsm/ordered", "berth/fsm/record",
	"bytes", "cmp", "crypto/sha256", "encoding/binary", "encoding/hex", "encoding/json", "errors", "fmt", "github.com/go-json-experiment/json", "github.com/go-json-experiment/json/v1", "hash/crc32", "io", "iter",
	"maps", "slices", "strings", "sync", "sync/atomic",
}

// TestPurity reads the source of the package and of its tables (the form of snapshots, fsm/record, has a rule of its own there), because a state machine that asks the clock, or the order of a map, works in every test and differs
// between two peers one night.
func TestPurity(t *testing.T) {
	for dir, least := range map[string]int{".": 10, "ordered": 2} {
		fset := token.NewFileSet()
		files := parseProduction(t, fset, dir, least)
		info := typeCheck(t, fset, files)
		for _, problem := range impurities(fset, files, info) {
			t.Error(problem)
		}
	}
}

// TestPurityFindsImpurities plants each kind of impurity: a check that cannot fail is none.
func TestPurityFindsImpurities(t *testing.T) {
	const source = `package fsm
import ("time"; "maps"; "fmt"; "math/rand")
var m map[string]int
type named map[int]int
func a() { _ = time.Now() }
func b() { go a() }
func c() { for range m {} }
func d() { for range named(nil) {} }
func e() { for k := range maps.Keys(m) { _ = k } }
func f() { select {} }
func g() { fmt.Printf("%d", rand.Int()) }
func h(f func(map[string]int)) { f(m); _ = make(chan int) }
`
	fset := token.NewFileSet()
	file, err := parser.ParseFile(fset, "planted.go", source, 0)
	must(t, err)
	got := strings.Join(impurities(fset, []*ast.File{file}, typeCheck(t, fset, []*ast.File{file})), "\n")
	for _, want := range []string{`imports "time"`, `imports "math/rand"`, "go:6:", "go:7:", "go:8:", "go:9:", "go:10:", "go:11:"} {
		if !strings.Contains(got, want) {
			t.Errorf("the check does not find %s; it found:\n%s", want, got)
		}
	}
	if strings.Contains(got, "go:12:") {
		t.Errorf("the check finds something where there is nothing:\n%s", got)
	}
}

func parseProduction(t *testing.T, fset *token.FileSet, dir string, least int) []*ast.File {
	names, err := filepath.Glob(filepath.Join(dir, "*.go"))
	must(t, err)
	var files []*ast.File
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(fset, name, nil, 0)
		must(t, err)
		files = append(files, f)
	}
	if len(files) < least {
		t.Fatalf("only %d files in %s: the test looks in the wrong place", len(files), dir)
	}
	return files
}

// typeCheck gives every expression its type, so that a map behind a name, a field or a function's result is known to be one.
func typeCheck(t *testing.T, fset *token.FileSet, files []*ast.File) *types.Info {
	exports := exportData(t)
	open := func(path string) (io.ReadCloser, error) {
		if exports[path] == "" {
			return nil, fmt.Errorf("no export data for %s", path)
		}
		return os.Open(exports[path])
	}
	info := &types.Info{Types: map[ast.Expr]types.TypeAndValue{}, Uses: map[*ast.Ident]types.Object{}}
	conf := types.Config{Importer: importer.ForCompiler(fset, "gc", open)}
	_, err := conf.Check("berth/fsm", fset, files, info)
	must(t, err)
	return info
}

// exportData asks the go command where the compiled form of every dependency lies.
func exportData(t *testing.T) map[string]string {
	cmd := exec.CommandContext(t.Context(), "go", "list", "-export", "-deps", "-json=ImportPath,Export", ".", "math/rand")
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	exports := map[string]string{}
	for d := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p struct{ ImportPath, Export string }
		if err := d.Decode(&p); errors.Is(err, io.EOF) {
			return exports
		} else if err != nil {
			t.Fatal(err)
		}
		exports[p.ImportPath] = p.Export
	}
}

func impurities(fset *token.FileSet, files []*ast.File, info *types.Info) []string {
	c := impurity{fset: fset, info: info}
	for _, f := range files {
		for _, imp := range f.Imports {
			if path, _ := strconv.Unquote(imp.Path.Value); !slices.Contains(allowedImports, path) {
				c.add(imp, "imports %q, which is not on the list", path)
			}
		}
		ast.Inspect(f, c.visit)
	}
	return c.found
}

type impurity struct {
	fset   *token.FileSet
	info   *types.Info
	sorted []ast.Node // arguments of slices.Sorted and SortedFunc, in which the order of a map does no harm
	found  []string
}

func (c *impurity) add(n ast.Node, format string, args ...any) {
	c.found = append(c.found, fmt.Sprintf("%s: %s", c.fset.Position(n.Pos()), fmt.Sprintf(format, args...)))
}

func (c *impurity) visit(n ast.Node) bool {
	switch n := n.(type) {
	case *ast.GoStmt:
		c.add(n, "starts a goroutine")
	case *ast.SelectStmt:
		c.add(n, "selects: which case runs is not for us to say")
	case *ast.RangeStmt:
		if t := c.info.TypeOf(n.X); t == nil || isMap(t) {
			c.add(n, "ranges over a map, in whatever order")
		}
	case *ast.CallExpr:
		c.call(n)
	}
	return true
}

// call finds the functions of allowed packages that are not allowed: iterators over maps, and printing.
func (c *impurity) call(n *ast.CallExpr) {
	sel, ok := n.Fun.(*ast.SelectorExpr)
	if !ok {
		return
	}
	fn, ok := c.info.Uses[sel.Sel].(*types.Func)
	if !ok || fn.Pkg() == nil {
		return
	}
	switch name := fn.Pkg().Path() + "." + fn.Name(); name {
	case "slices.Sorted", "slices.SortedFunc":
		for _, a := range n.Args {
			c.sorted = append(c.sorted, a)
		}
	case "maps.Keys", "maps.Values", "maps.All":
		if !slices.Contains(c.sorted, ast.Node(n)) {
			c.add(n, "goes through a map by %s, in whatever order; use sortedKeys", name)
		}
	case "fmt.Print", "fmt.Println", "fmt.Printf":
		c.add(n, "prints")
	}
}

func isMap(t types.Type) bool {
	_, ok := t.Underlying().(*types.Map)
	return ok
}
