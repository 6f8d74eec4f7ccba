package fsm

import (
	"bytes"
	"fmt"
	"math"
	"reflect"
	"testing"

	"berth/fleet"
	"berth/fsm/record"
)

// TestEveryFieldIsStored writes each type of row with one single field set, field after field down to the last leaf, and wants it back. A field
// that a list forgets, or two that have one number, would make a restored peer differ from the others.
func TestEveryFieldIsStored(t *testing.T) {
	stored(t, coreFields)
	stored(t, serverFields)
	stored(t, modelFields)
	stored(t, pastSpecFields)
	stored(t, nodeFields)
	stored(t, replicaFields)
	stored(t, requestFields)
	stored(t, feedFields)
	stored(t, strayFields)
}

func stored[T any](t *testing.T, fields func(*record.Codec, *T)) {
	typ := reflect.TypeFor[T]()
	rows := variants(typ)
	if len(rows) < typ.NumField() {
		t.Fatalf("%s: %d variants of %d fields", typ, len(rows), typ.NumField())
	}
	for _, v := range rows {
		row := v.Interface().(T)
		if got := roundTrip(t, &row, fields); !reflect.DeepEqual(*got, row) {
			t.Errorf("%s: wrote %s\nread %s", typ, text(row), text(*got))
		}
	}
}

func roundTrip[T any](t *testing.T, row *T, fields func(*record.Codec, *T)) *T {
	var b bytes.Buffer
	out := record.NewWriter(&b, []byte("{}\n"))
	record.Row(out, 1, row, fields)
	_, err := out.End()
	must(t, err)
	in := record.NewReader(&b)
	_, err = in.Header()
	must(t, err)
	var got []*T
	must(t, record.Each(in, func(b record.Block) ([]*T, error) { return record.Rows(b, fields) }, func(rows []*T) error {
		got = append(got, rows...)
		return nil
	}))
	if len(got) != 1 {
		t.Fatalf("one row was written and %d were read", len(got))
	}
	return got[0]
}

// variants returns values of a type in which one leaf is set.
func variants(typ reflect.Type) []reflect.Value {
	var out []reflect.Value
	switch typ.Kind() {
	case reflect.Struct:
		for i := range typ.NumField() {
			for _, f := range variants(typ.Field(i).Type) {
				v := reflect.New(typ).Elem()
				v.Field(i).Set(f)
				out = append(out, v)
			}
		}
	case reflect.Pointer:
		out = append(out, reflect.New(typ.Elem())) // there, and zero
		for _, e := range variants(typ.Elem()) {
			p := reflect.New(typ.Elem())
			p.Elem().Set(e)
			out = append(out, p)
		}
	case reflect.Slice:
		for _, e := range variants(typ.Elem()) {
			out = append(out, reflect.Append(reflect.New(typ).Elem(), e, reflect.Zero(typ.Elem()), e))
		}
	case reflect.Map:
		m := reflect.MakeMap(typ)
		for _, k := range []string{"b", "", "a"} {
			m.SetMapIndex(reflect.ValueOf(k), reflect.ValueOf("value of "+k))
		}
		out = append(out, m)
	default:
		out = leaves(typ)
	}
	return out
}

func leaves(typ reflect.Type) []reflect.Value {
	var out []reflect.Value
	add := func(x any) { out = append(out, reflect.ValueOf(x).Convert(typ)) }
	switch typ.Kind() {
	case reflect.String:
		add("<text> & \u00e9\x00")
	case reflect.Bool:
		add(true)
	case reflect.Int, reflect.Int64:
		for _, i := range []int64{1, -1, 63, -65, math.MaxInt64, math.MinInt64} {
			add(i)
		}
	case reflect.Uint64:
		for _, u := range []uint64{1, 127, 128, math.MaxUint64} {
			add(u)
		}
	default:
		panic(fmt.Sprintf("a field of type %s: teach this test and package record about it", typ))
	}
	return out
}

// TestPastSpecsAreStored: the spec that a replica of an older generation runs by is not in its model's row any more.
func TestPastSpecsAreStored(t *testing.T) {
	m := sample(t)
	sp := model("m", 1, 1)
	sp.Engine.Args = []string{"--other"}
	applyAt(t, m, 100, Meta{}, ModelApply{Spec: sp})
	if _, ok := m.State().Spec("m", 1); !ok {
		t.Fatal("the spec of the replica that runs is gone")
	}
	checkRoundTrip(t, m.State())
	if was, ok := restored(t, m.State()).State().Spec("m", 1); !ok || was.Engine.Args != nil {
		t.Fatalf("after a restore the first generation's spec is %+v, %v", was, ok)
	}
}

// TestEmptyAndNoneAreOne: a list that is empty and one that is not there are the same row, before and after a restore.
func TestEmptyAndNoneAreOne(t *testing.T) {
	row := &fleet.Node{Name: "n1", Labels: map[string]string{}, Engines: []fleet.EngineOffer{}}
	if got := roundTrip(t, row, nodeFields); !reflect.DeepEqual(*got, fleet.Node{Name: "n1"}) {
		t.Fatalf("got %#v", got)
	}
}
