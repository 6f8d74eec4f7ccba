package fsm

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"syscall"
	"testing"

	"berth/fleet"
)

var nodesFlag = flag.Int("nodes", 1000, "nodes of the fleet in the benchmarks of snapshots, eight cards and ten replicas each")

// largeFleet makes the state of a fleet such as operators have it: real UUIDs and names of cards, labels, doors with keys, a full window of
// requests. It makes the rows themselves: to apply their history would take longer than what is measured.
func largeFleet(b testing.TB, nodes int) *State {
	b.Helper()
	l := loader{core: []*core{{Cluster: fleet.Cluster{ID: "c-1", Epoch: 1, Level: 1}, Settings: fleet.DefaultSettings()}}}
	models := max(1, nodes/10)
	for i := range models {
		sp := model(fmt.Sprintf("meta-llama/Llama-3.1-%06d-Instruct", i), 1, 1)
		sp.Engine.Args = []string{"--max-model-len=32768", "--gpu-memory-utilization=0.92"}
		l.models = append(l.models, &fleet.Model{Spec: sp, Generation: 3, Want: 2, Created: fleet.Index{Epoch: 1, N: 5}, Changed: fleet.Index{Epoch: 1, N: 4711}, CreatedAt: 1_796_083_200_000, ChangedAt: 1_796_083_200_000})
	}
	for i := range nodes {
		l.nodes = append(l.nodes, largeNode(i))
	}
	for i := range nodes * 10 {
		l.replicas = append(l.replicas, largeReplica(i, i/10, l.models[i%models]))
	}
	for i := range min(requestWindow, nodes*10) {
		l.requests = append(l.requests, &request{ID: fmt.Sprintf("1.%08d-4f1c9a6e2b7d4e08", i), Hash: "0f343b0931126a20f133d67c2b018a3b",
			Outcome: Outcome{Index: fleet.Index{Epoch: 1, N: uint64(i)}, Items: []*fleet.Error{nil, nil, {Code: fleet.Conflict, Message: "the node gpu-000017 is draining"}}, Changed: true}})
	}
	for _, n := range l.nodes {
		l.feeds = append(l.feeds, &feedRow{Name: ordersFeed(n.Name), Changed: n.Changed})
	}
	s, err := l.state(header{Format: snapshotFormat, Level: 1, Index: fleet.Index{Epoch: 1, N: 2_000_000}, Cluster: "c-1"})
	if err != nil {
		b.Fatal(err)
	}
	return s
}

func cardOf(node, card int) string { return fmt.Sprintf("GPU-%08x-5c1d-4b7e-9a53-%012x", node, card) }

func largeNode(i int) *fleet.Node {
	name := fmt.Sprintf("gpu-%06d", i)
	n := &fleet.Node{
		Name: name, ID: fmt.Sprintf("n-%032x", i), Instance: 7, Address: name + ".example.net:7310", EngineAddress: "192.0.2.17", Version: "1.0.0",
		Labels:     map[string]string{"zone": "a", "rack": fmt.Sprintf("r%d", i/32)},
		Inventory:  fleet.Inventory{Source: "nvml", Fabric: fmt.Sprintf("nvl-%04d", i/16), CPUs: 192, Memory: 2 * fleet.TiB, Driver: "570.86.15"},
		Engines:    []fleet.EngineOffer{{Driver: "vllm", Version: "0.18.1", Hub: true, AllowArgs: []string{"--max-model-len", "--gpu-memory-utilization"}}},
		ModelRoots: []string{"/srv/models"}, RegisteredAt: 1_796_083_200_000, Changed: fleet.Index{Epoch: 1, N: uint64(100 + i)},
	}
	for g := range 8 {
		n.Inventory.GPUs = append(n.Inventory.GPUs, fleet.GPU{UUID: cardOf(i, g), Index: g, Class: "h100-sxm-80gb", Name: "NVIDIA H100 80GB HBM3", Memory: 80 * fleet.GiB, Health: fleet.Healthy})
	}
	return n
}

func largeReplica(i, node int, m *fleet.Model) *fleet.Replica {
	at := fleet.Index{Epoch: 1, N: uint64(1_000_000 + i)}
	return &fleet.Replica{
		ID: fmt.Sprintf("r-1.%d.1", at.N), Model: m.Name(), Generation: m.Generation, RunHash: "0f343b0931126a20f133d67c2b018a3b", State: fleet.Ready,
		Shards: []fleet.Shard{{Node: fmt.Sprintf("gpu-%06d", node), Claims: []fleet.Claim{{GPU: cardOf(node, i%8), Share: 40 * fleet.GiB}}, Shim: 12}},
		Door:   &fleet.Door{Address: fmt.Sprintf("192.0.2.17:%d", 20000+i%10), Key: "dGhpcyBpcyBub3QgYSBrZXkgYnV0IGFzIGxvbmcgYXM"}, Start: 1, Order: at,
		CreatedAt: 1_796_083_200_000, StateAt: 1_796_083_260_000, Changed: at,
	}
}

// jsonSize is the size of the same rows as lines of JSON, in bytes: the measure of a state that does not change with the form of its snapshot.
func jsonSize(s *State) int64 {
	size := 0
	add := func(v any) {
		data, err := json.Marshal(v)
		if err != nil {
			panic(err)
		}
		size += len(data) + 1
	}
	for _, m := range s.models.all() {
		add(m)
	}
	for _, n := range s.nodes.all() {
		add(n)
	}
	for _, r := range s.replicas.all() {
		add(r)
	}
	for _, r := range s.requests.all() {
		add(r)
	}
	return int64(size)
}

// cpu returns the processor time that the process has used, in seconds: on a machine with much else to do, wall time says little.
func cpu() float64 {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		panic(err)
	}
	return float64(u.Utime.Nano()+u.Stime.Nano()) / 1e9
}

func reportRates(b *testing.B, s *State, file int, began float64) {
	used := (cpu() - began) / float64(b.N)
	seconds := b.Elapsed().Seconds() / float64(b.N)
	b.ReportMetric(used/float64(file)*1e9, "cpu-s/GB-file")
	b.ReportMetric(float64(file)/1e6, "file-MB")
	b.ReportMetric(float64(jsonSize(s))/1e6, "json-MB")
	b.ReportMetric(seconds/float64(file)*1e9, "s/GB-file")
	b.ReportMetric(seconds/float64(jsonSize(s))*1e9, "s/GB-json")
}

func BenchmarkSnapshot(b *testing.B) {
	s := largeFleet(b, *nodesFlag)
	size := len(snapshotOf(b, s))
	b.ReportAllocs()
	began := cpu()
	for b.Loop() {
		if err := s.WriteSnapshot(io.Discard); err != nil {
			b.Fatal(err)
		}
	}
	reportRates(b, s, size, began)
}

func BenchmarkRestore(b *testing.B) {
	s := largeFleet(b, *nodesFlag)
	data := snapshotOf(b, s)
	b.ReportAllocs()
	m := New()
	began := cpu()
	for b.Loop() {
		if err := m.Restore(bytes.NewReader(data)); err != nil {
			b.Fatal(err)
		}
	}
	reportRates(b, s, len(data), began)
}
