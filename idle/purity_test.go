package idle_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"strings"
	"testing"
)

// TestPure reads the source: no clock, no goroutine, no channel, and no import beyond the vocabulary and what cannot do I/O.
func TestPure(t *testing.T) {
	allowed := map[string]bool{
		"cmp": true, "fmt": true, "maps": true, "math": true, "slices": true, "sync": true, "time": true,
		"berth/fleet": true, "berth/fleet/wire": true, "berth/idle/recent": true, "iter": true,
	}
	// Of package time only the arithmetic of durations may be named.
	clockless := map[string]bool{"Duration": true, "Nanosecond": true, "Second": true, "Hour": true}
	files, err := filepath.Glob("*.go")
	inside, _ := filepath.Glob("recent/*.go")
	if err != nil || len(files) < 5 || len(inside) == 0 {
		t.Fatalf("sources %v and %v: %v", files, inside, err)
	}
	files = append(files, inside...)
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		fset := token.NewFileSet()
		file, err := parser.ParseFile(fset, name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, imp := range file.Imports {
			if path := strings.Trim(imp.Path.Value, `"`); !allowed[path] || imp.Name != nil {
				t.Errorf("%s: imports %s", name, imp.Path.Value)
			}
		}
		ast.Inspect(file, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.GoStmt, *ast.ChanType, *ast.SelectStmt:
				t.Errorf("%s: goroutines and channels do not belong here", fset.Position(n.Pos()))
			case *ast.SelectorExpr:
				if x, ok := n.X.(*ast.Ident); ok && x.Name == "time" && !clockless[n.Sel.Name] {
					t.Errorf("%s: time.%s; the clock is an argument", fset.Position(n.Pos()), n.Sel.Name)
				}
			}
			return true
		})
	}
}
