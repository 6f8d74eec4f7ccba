package modelfile

import (
	"fmt"

	"go.yaml.in/yaml/v3"
)

// Field is one top-level field of a document whose value is a scalar or a list of scalars.
type Field struct {
	Name   string
	Line   int
	Values []string // one for a scalar
}

// Fields returns the top-level fields of a document that are in known, in the order of the file. A field that is in neither known nor other is an
// error that names the nearest one, as is a known field whose value is a map.
func (d Document) Fields(known, other map[string]bool) ([]Field, error) {
	if d.node.Kind != yaml.MappingNode {
		return nil, fmt.Errorf("%s:%d: want fields (name: value), found %s", d.File, d.node.Line, kindName(d.node))
	}
	names := map[string]int{}
	for _, set := range []map[string]bool{known, other} {
		for name := range set {
			names[name] = 0
		}
	}
	dec := decoder{file: d.File}
	var fields []Field
	for i := 0; i+1 < len(d.node.Content); i += 2 {
		key, val := d.node.Content[i], d.node.Content[i+1]
		switch {
		case known[key.Value]:
			if values, ok := dec.scalars(val, key.Value); ok {
				fields = append(fields, Field{Name: key.Value, Line: key.Line, Values: values})
			}
		case !other[key.Value]:
			dec.fail(key, "unknown field %s%s", key.Value, dec.suggest(key.Value, names))
		}
	}
	if len(dec.problems) > 0 {
		return nil, &Error{Problems: dec.problems}
	}
	return fields, nil
}

func (d *decoder) scalars(n *yaml.Node, name string) ([]string, bool) {
	items := []*yaml.Node{n}
	if n.Kind == yaml.SequenceNode {
		items = n.Content
	}
	values := make([]string, len(items))
	for i, item := range items {
		if item.Kind != yaml.ScalarNode || item.Tag == "!!null" {
			d.fail(item, "%s: want a value or a list of values, found %s", name, kindName(item))
			return nil, false
		}
		values[i] = item.Value
	}
	return values, true
}
