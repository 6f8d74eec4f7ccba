package fsm

import (
	"errors"
	"math/rand/v2"
	"reflect"
	"testing"

	jsonv2 "github.com/go-json-experiment/json"
)

// sameAsStandard says where the fast decoder takes what encoding/json does not take, or takes it otherwise.
func sameAsStandard[T any](data []byte) (taken bool, err error) {
	var fast T
	if jsonv2.Unmarshal(data, &fast, asStandard) != nil {
		return false, nil
	}
	std, err := standard[T](data)
	switch {
	case err != nil:
		return true, err
	case !reflect.DeepEqual(fast, std):
		return true, errors.New("another value")
	}
	return true, nil
}

// bodies gives the body of an entry to the decoders of the kinds that have the most in them.
func bodies(data []byte) (taken int, err error) {
	for _, try := range []func([]byte) (bool, error){
		sameAsStandard[envelope], sameAsStandard[ModelApply], sameAsStandard[NodeRegister], sameAsStandard[PlanApply],
		sameAsStandard[ReplicaTransitions], sameAsStandard[SettingsSet], sameAsStandard[NodeLabel], sameAsStandard[FreezeSet],
		sameAsStandard[header],
	} {
		ok, bad := try(data)
		if ok {
			taken++
		}
		err = errors.Join(err, bad)
	}
	return taken, err
}

// odd is where decoders of JSON differ.
var odd = []string{
	`{"MODEL":"m","Replicas":2}`, `{"model":"a","model":"b"}`, `{"mo_del":"m"}`, `{"spec":{"name":"a"},"spec":{"labels":{"x":"y"}}}`,
	`{"spec":{"labels":{"a":"b","a":"c"}}}`, `{"spec":null}`, `null`, `[]`, `{}`, ` {} `, `{}{}`, `{"spec":{"aliases":null}}`, `{"spec":{"aliases":[]}}`,
	`{"spec":{"name":"\ud800"}}`, "{\"spec\":{\"name\":\"\xff\"}}", `{"spec":{"priority":1e2}}`, `{"spec":{"priority":1.0}}`, `{"spec":{"priority":-0}}`,
	`{"spec":{"priority":99999999999999999999}}`, `{"spec":{"pin":"true"}}`, `{"spec":{"idle":{"unload_after":7}}}`, `{"spec":{"idle":{"unload_after":""}}}`,
	`{"if_match":"1.2"}`, `{"if_match":null}`, `{"if_match":12}`, `{"set":{"a":null,"b":"c"}}`, `{"freeze":{"reason":"r","at":0}}`, `{"freeze":{"at":"yesterday"}}`,
	`{"kind":"x","meta":{"level":1,"at":"2026-12-01T00:00:00.000Z"},"body":{"a":1}}`, `{"kind":"x","body":null}`, `{"Kind":"x","KIND":"y","body":[1, 2]}`,
	`{"plan":{"items":[null]}}`, `{"plan":{"items":[{"place":null}]}}`, `{"items":[{"order":"1.7","rank":0,"order":"1.8"}]}`, `{"registration":{"inventory":{"gpus":[{"memory":"80GiB"}]}}}`,
	`{"spec":{"name":"a` + "\x00" + `"}}`, `{"spec":{"name":"<&>\u2028"}}`, `{"settings":{"node_grace":"30s","NODE_GRACE":"40s"}}`,
}

// TestTheFastDecoderIsTheStandardOne changes entries at random, where decoders differ, and bit by bit.
func TestTheFastDecoderIsTheStandardOne(t *testing.T) {
	seed := rand.Uint64()
	rng := rand.New(rand.NewPCG(seed, 1))
	g := newGenerator(seed)
	state := sample(t).State()
	texts := make([][]byte, 0, 2000)
	for _, s := range odd {
		texts = append(texts, []byte(s))
	}
	for range 300 {
		data, err := Encode(Meta{Request: "id", At: 1}, g.command(state))
		must(t, err)
		e, err := strict[envelope](data[headerSize:])
		must(t, err)
		texts = append(texts, data[headerSize:], e.Body)
	}
	taken := 0
	for i := range 40_000 {
		text := texts[i%len(texts)]
		if i >= len(texts) {
			text = mangle(rng, text, texts)
		}
		n, err := bodies(text)
		if err != nil {
			t.Fatalf("seed %d: the fast decoder takes %q, encoding/json: %v", seed, text, err)
		}
		taken += n
	}
	if taken < 5_000 {
		t.Errorf("seed %d: only %d texts were taken: the test looks at nothing", seed, taken)
	}
}

// mangle changes a text a little: a byte, a piece taken out or doubled, or a piece of another text put in.
func mangle(rng *rand.Rand, text []byte, others [][]byte) []byte {
	out := append([]byte(nil), text...)
	if len(out) < 2 {
		return out
	}
	i := rng.IntN(len(out))
	j := min(len(out), i+rng.IntN(12))
	switch rng.IntN(5) {
	case 0:
		out[i] ^= 1 << rng.IntN(8)
	case 1:
		return append(out[:i], out[j:]...)
	case 2:
		return append(append(append([]byte(nil), out[:j]...), out[i:j]...), out[j:]...)
	case 3:
		other := others[rng.IntN(len(others))]
		k := rng.IntN(len(other))
		return append(append(append([]byte(nil), out[:i]...), other[k:min(len(other), k+rng.IntN(20))]...), out[i:]...)
	default:
		const marks = `{}[]":,\u0123456789.eE+-nulltruefalse `
		out[i] = marks[rng.IntN(len(marks))]
	}
	return out
}

// FuzzStrict is the same with what the fuzzer finds.
func FuzzStrict(f *testing.F) {
	for _, s := range odd {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		if _, err := bodies(data); err != nil {
			t.Fatalf("the fast decoder takes %q, encoding/json: %v", data, err)
		}
	})
}
