package wire

import (
	"encoding/json"
	"math/rand/v2"
	"reflect"
	"testing"
	"time"

	"berth/fleet"
)

func someHeartbeat(rng *rand.Rand) Heartbeat {
	age := func() *float64 {
		if f := rng.ExpFloat64() * 1000; rng.IntN(3) > 0 {
			return &f
		}
		return nil
	}
	h := Heartbeat{Version: Version, Node: "gpu-017", ID: "id", Instance: rng.Uint64(), Seq: 7, Orders: []string{"", "1.4711"}[rng.IntN(2)]}
	for range rng.IntN(4) {
		r := Reading{Replica: "r-1.17.2", Shim: rng.Uint64(), Engine: 2, Number: 3, Admissions: 4, InFlight: rng.IntN(5) - 2, UseAge: age(), ReadyAge: age(), Shut: rng.IntN(2) == 0}
		if rng.IntN(4) > 0 {
			r.Stamp = &Stamp{Leader: []string{"peer-1", "peer-ü", `a"b`}[rng.IntN(3)], Term: 3, Clock: rng.Int64() - rng.Int64()}
		}
		h.Readings = append(h.Readings, r)
	}
	for range rng.IntN(3) {
		h.GPUs = append(h.GPUs, GPULoad{UUID: "GPU-1", Celsius: age(), Watts: age()})
	}
	return h
}

func someReport(rng *rand.Rand) Report {
	r := Report{Version: Version, Router: "router-1", Boot: 3, Seq: rng.Uint64(), Release: "1.0", Address: "192.0.2.1:7380", All: rng.IntN(2) == 0}
	if rng.IntN(2) == 0 {
		r.Table = fleet.Index{Epoch: 1, N: 5}
		r.Uses = map[string]Use{"r-1.17.2": {Age: rng.Float64()}, "r-1.17.3": {Age: 1e-9, InFlight: 3}, "r <odd> ü": {}}
		r.Demand = map[string]Demand{"meta-llama/Llama-3.1-8B": {Waiting: 3, Oldest: 1.5}}
	}
	return r
}

// What is read by hand is what encoding/json reads, also where a document was damaged or is not quite as Berth writes it.
func TestReadByHandIsReadByTheLibrary(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 1))
	for range 30_000 {
		same(t, damaged(rng, someHeartbeat(rng)), ReadHeartbeat)
		same(t, damaged(rng, someReport(rng)), ReadReport)
	}
}

func same[T any](t *testing.T, data []byte, read func([]byte) (T, error)) {
	t.Helper()
	var want T
	werr := json.Unmarshal(data, &want)
	got, err := read(data)
	if (err == nil) != (werr == nil) || err != nil && err.Error() != werr.Error() || !reflect.DeepEqual(got, want) {
		t.Fatalf("%s\nby hand    %+v, %v\nby library %+v, %v", data, got, err, want, werr)
	}
}

// damaged writes a message, and half of the time changes, drops, doubles or moves a piece of it.
func damaged(rng *rand.Rand, v any) []byte {
	data, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	for range rng.IntN(3) {
		i := rng.IntN(len(data))
		j := min(len(data), i+1+rng.IntN(40))
		switch rng.IntN(5) {
		case 0:
			data[i] = ` {}[]",:\0123456789eE+-.tfnuax`[rng.IntN(30)]
		case 1:
			data = append(append([]byte{}, data[:i]...), data[j:]...)
		case 2:
			data = append(append(append([]byte{}, data[:j]...), data[i:j]...), data[j:]...)
		case 3:
			data = data[:i]
		}
		if len(data) == 0 {
			break
		}
	}
	return data
}

// The quick way is the one that is taken: what Berth writes is read whole without the library.
func TestWhatBerthWritesIsReadByHand(t *testing.T) {
	f := 1.25
	h := Heartbeat{Version: 1, Node: "n", ID: "i", Instance: 1, Seq: 2, Orders: "1.2", GPUs: []GPULoad{{UUID: "g", Watts: &f}},
		Readings: []Reading{{Replica: "r", Shim: 1, Engine: 1, Number: 1, UseAge: &f, ReadyAge: &f, Shut: true, Stamp: &Stamp{"p", 1, 2}}, {Replica: "s", Stamp: &Stamp{"p", 1, 2}}}}
	r := Report{Router: "r", Table: fleet.Index{Epoch: 1, N: 1}, All: true, Uses: map[string]Use{"a": {Age: 1e-7, InFlight: 1}}, Demand: map[string]Demand{"m/x": {1, 2}}}
	for _, v := range []any{h, r} {
		data, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		c := cursor{data: data}
		if _, ok := v.(Report); ok {
			c.report(new(Report))
		} else {
			c.heartbeat(new(Heartbeat))
		}
		if !c.whole() {
			t.Errorf("odd at %d of %s", c.at, data)
		}
	}
}

func FuzzQuick(f *testing.F) {
	rng := rand.New(rand.NewPCG(1, 1))
	for range 20 {
		f.Add(damaged(rng, someHeartbeat(rng)))
		f.Add(damaged(rng, someReport(rng)))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		same(t, data, ReadHeartbeat)
		same(t, data, ReadReport)
	})
}
