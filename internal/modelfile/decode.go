package modelfile

import (
	"encoding"
	"errors"
	"fmt"
	"io"
	"math"
	"reflect"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Problem is one thing that is wrong with a file, at a line.
type Problem struct {
	File string
	Line int
	Text string
}

// String writes "file:line: text".
func (p Problem) String() string { return fmt.Sprintf("%s:%d: %s", p.File, p.Line, p.Text) }

// Error is everything that is wrong with a file.
type Error struct{ Problems []Problem }

// Error writes one problem a line.
func (e *Error) Error() string {
	lines := make([]string, len(e.Problems))
	for i, p := range e.Problems {
		lines[i] = p.String()
	}
	return strings.Join(lines, "\n")
}

// Document is one document of a YAML stream.
type Document struct {
	File string
	node *yaml.Node
}

// Line returns the line at which the document starts.
func (d Document) Line() int { return d.node.Line }

// Documents splits a YAML (or JSON) stream. Empty documents are left out.
func Documents(file string, r io.Reader) ([]Document, error) {
	dec := yaml.NewDecoder(r)
	var docs []Document
	for {
		var n yaml.Node
		err := dec.Decode(&n)
		if errors.Is(err, io.EOF) {
			return docs, nil
		}
		if err != nil {
			return nil, fmt.Errorf("%s: not YAML: %s", file, strings.TrimPrefix(err.Error(), "yaml: "))
		}
		if len(n.Content) == 0 || n.Content[0].Tag == "!!null" {
			continue
		}
		docs = append(docs, Document{File: file, node: n.Content[0]})
	}
}

// Field returns the text of a top-level scalar of the document, such as its kind; "" when it is not there.
func (d Document) Field(name string) string {
	for i := 0; d.node.Kind == yaml.MappingNode && i+1 < len(d.node.Content); i += 2 {
		if d.node.Content[i].Value == name {
			return d.node.Content[i+1].Value
		}
	}
	return ""
}

// Decode fills into, a pointer to a struct, from the document. Fields that the document leaves out keep the value that into has. Hints give, for
// a field name that does not exist, what to write instead; without one the nearest name is suggested.
func (d Document) Decode(into any, hints map[string]string) error {
	dec := decoder{file: d.File, hints: hints}
	dec.value(d.node, reflect.ValueOf(into).Elem(), "")
	if len(dec.problems) > 0 {
		return &Error{Problems: dec.problems}
	}
	return nil
}

type decoder struct {
	file     string
	hints    map[string]string
	problems []Problem
	depth    int
}

// maxDepth bounds nesting, so that an alias that contains itself is an error and not a hang.
const maxDepth = 32

func (d *decoder) fail(n *yaml.Node, format string, args ...any) {
	d.problems = append(d.problems, Problem{File: d.file, Line: n.Line, Text: fmt.Sprintf(format, args...)})
}

func (d *decoder) value(n *yaml.Node, v reflect.Value, path string) {
	d.depth++
	defer func() { d.depth-- }()
	if d.depth > maxDepth {
		d.fail(n, "%s is nested more than %d deep", path, maxDepth)
		return
	}
	if n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	if u, ok := v.Addr().Interface().(encoding.TextUnmarshaler); ok {
		d.text(n, u, path)
		return
	}
	switch v.Kind() {
	case reflect.Pointer:
		p := reflect.New(v.Type().Elem())
		d.value(n, p.Elem(), path)
		v.Set(p)
	case reflect.Struct:
		d.structure(n, v, path)
	case reflect.Map:
		d.mapping(n, v, path)
	case reflect.Slice:
		d.slice(n, v, path)
	default:
		d.scalar(n, v, path)
	}
}

func (d *decoder) text(n *yaml.Node, u encoding.TextUnmarshaler, path string) {
	if n.Kind != yaml.ScalarNode {
		d.fail(n, "%s: want a value, found %s", path, kindName(n))
		return
	}
	if err := u.UnmarshalText([]byte(n.Value)); err != nil {
		d.fail(n, "%s: %s", path, err)
	}
}

func (d *decoder) structure(n *yaml.Node, v reflect.Value, path string) {
	if n.Kind != yaml.MappingNode {
		d.fail(n, "%s: want fields (name: value), found %s", orTop(path), kindName(n))
		return
	}
	fields := fieldsOf(v.Type())
	seen := map[string]bool{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, val := n.Content[i], n.Content[i+1]
		index, ok := fields[key.Value]
		switch {
		case !ok:
			d.fail(key, "unknown field %s%s", join(path, key.Value), d.suggest(key.Value, fields))
		case seen[key.Value]:
			d.fail(key, "the field %s is there twice", join(path, key.Value))
		default:
			seen[key.Value] = true
			d.value(val, v.Field(index), join(path, key.Value))
		}
	}
}

func (d *decoder) mapping(n *yaml.Node, v reflect.Value, path string) {
	if n.Kind != yaml.MappingNode {
		d.fail(n, "%s: want a map (name: value), found %s", path, kindName(n))
		return
	}
	m := reflect.MakeMapWithSize(v.Type(), len(n.Content)/2)
	for i := 0; i+1 < len(n.Content); i += 2 {
		key := reflect.ValueOf(n.Content[i].Value)
		if m.MapIndex(key).IsValid() {
			d.fail(n.Content[i], "%s is there twice", join(path, n.Content[i].Value))
			continue
		}
		elem := reflect.New(v.Type().Elem()).Elem()
		d.value(n.Content[i+1], elem, join(path, n.Content[i].Value))
		m.SetMapIndex(key, elem)
	}
	v.Set(m)
}

func (d *decoder) slice(n *yaml.Node, v reflect.Value, path string) {
	if n.Kind != yaml.SequenceNode {
		d.fail(n, "%s: want a list, found %s; write [%s] or one - item a line", path, kindName(n), n.Value)
		return
	}
	out := reflect.MakeSlice(v.Type(), len(n.Content), len(n.Content))
	for i, item := range n.Content {
		d.value(item, out.Index(i), fmt.Sprintf("%s[%d]", path, i))
	}
	v.Set(out)
}

func (d *decoder) scalar(n *yaml.Node, v reflect.Value, path string) {
	if n.Kind != yaml.ScalarNode {
		d.fail(n, "%s: want %s, found %s", path, wantName(v.Kind()), kindName(n))
		return
	}
	switch v.Kind() {
	case reflect.String:
		if n.Tag == "!!bool" || n.Tag == "!!null" {
			d.fail(n, "%s: want text, found %s; put it in quotes if text is meant", path, n.Value)
			return
		}
		v.SetString(n.Value)
	case reflect.Bool:
		if n.Tag != "!!bool" {
			d.fail(n, "%s: want true or false, found %q", path, n.Value)
			return
		}
		v.SetBool(strings.EqualFold(n.Value, "true"))
	case reflect.Int, reflect.Int64, reflect.Uint64:
		d.number(n, v, path)
	default:
		panic("modelfile: a field of type " + v.Type().String() + " in a file's struct")
	}
}

func (d *decoder) number(n *yaml.Node, v reflect.Value, path string) {
	x, err := strconv.ParseInt(n.Value, 10, 64)
	if n.Tag != "!!int" || err != nil || v.Kind() == reflect.Uint64 && x < 0 || v.Kind() == reflect.Int && x > math.MaxInt {
		d.fail(n, "%s: want a whole number, found %q", path, n.Value)
		return
	}
	if v.Kind() == reflect.Uint64 {
		v.SetUint(uint64(x))
		return
	}
	v.SetInt(x)
}

func (d *decoder) suggest(name string, fields map[string]int) string {
	if hint, ok := d.hints[name]; ok {
		return "; " + hint
	}
	if near := nearest(name, fields); near != "" {
		return "; did you mean " + near + "?"
	}
	return ""
}

// fieldsOf maps the json names of a struct's fields to their index.
func fieldsOf(t reflect.Type) map[string]int {
	fields := make(map[string]int, t.NumField())
	for i := range t.NumField() {
		name, _, _ := strings.Cut(t.Field(i).Tag.Get("json"), ",")
		if name != "" && name != "-" {
			fields[name] = i
		}
	}
	return fields
}

func join(path, name string) string {
	if path == "" {
		return name
	}
	return path + "." + name
}

func orTop(path string) string {
	if path == "" {
		return "the document"
	}
	return path
}

func kindName(n *yaml.Node) string {
	switch n.Kind {
	case yaml.MappingNode:
		return "a map"
	case yaml.SequenceNode:
		return "a list"
	case yaml.ScalarNode:
		if n.Tag == "!!null" {
			return "nothing"
		}
		return strconv.Quote(n.Value)
	default:
		return "something else"
	}
}

func wantName(k reflect.Kind) string {
	switch k {
	case reflect.String:
		return "text"
	case reflect.Bool:
		return "true or false"
	default:
		return "a whole number"
	}
}
