package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"

	"berth/fleet"
	"berth/fleet/wire"
)

// notYet lists the fields that this release keeps, checks and shows, but gives no effect yet.
var notYet = map[string]string{
	"replicas.max": "bounds wake, and a scale beyond it raises it; there is no autoscaling",
}

func (a *app) printModel(m wire.ModelView) {
	w := tabwriter.NewWriter(a.out, 0, 8, 2, ' ', 0)
	fmt.Fprintf(w, "state\t%s\n", m.State)
	fmt.Fprintf(w, "replicas ready\t%d of %d wanted\n", m.Ready, m.Want)
	fmt.Fprintf(w, "generation\t%d\n", m.Generation)
	fmt.Fprintf(w, "changed\t%s at %s\n", m.Changed, m.ChangedAt.Std().Format("2006-01-02 15:04:05 MST"))
	if m.Refusal != nil {
		fmt.Fprintf(w, "not placed\t%s\n", strings.ReplaceAll(refusal(*m.Refusal), "\n", "\n\t"))
	}
	fields := flatten(m.Spec)
	for key, value := range fields {
		fields[key] = harmless(value)
	}
	for _, key := range sortedKeys(fields, nil) {
		if note, ok := notYet[key]; ok {
			fmt.Fprintf(w, "%s\t%s\t(%s)\n", key, fields[key], note)
			continue
		}
		fmt.Fprintf(w, "%s\t%s\n", key, fields[key])
	}
	_ = w.Flush() // the table's sink reports its own errors
}

// flatten writes a spec as dotted names and texts, the form in which people compare two of them.
func flatten(s fleet.ModelSpec) map[string]string {
	data, _ := json.Marshal(s)
	var tree map[string]any
	_ = json.Unmarshal(data, &tree) // it was just marshalled
	out := map[string]string{}
	walk("", tree, out)
	return out
}

func walk(path string, v any, out map[string]string) {
	switch x := v.(type) {
	case map[string]any:
		for k, sub := range x {
			walk(strings.TrimPrefix(path+"."+k, "."), sub, out)
		}
	case []any:
		texts := make([]string, len(x))
		for i, e := range x {
			texts[i] = fmt.Sprint(e)
		}
		out[path] = "[" + strings.Join(texts, ", ") + "]"
	default:
		out[path] = fmt.Sprint(x)
	}
}

func sortedKeys(a, b map[string]string) []string {
	all := maps.Clone(a)
	for k := range b {
		all[k] = ""
	}
	return slices.Sorted(maps.Keys(all))
}
