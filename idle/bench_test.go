package idle_test

import (
	"encoding/json"
	"fmt"
	"runtime"
	"testing"
	"time"

	"berth/fleet/wire"
	"berth/idle"
)

const benchReplicas = 50_000

func replicaID(i int) string { return fmt.Sprintf("r-1.%d.1", i) }

// benchReports are those of one tick: 100 routers, each of which used 1 % of the replicas.
func benchReports() []wire.Report {
	reports := make([]wire.Report, 100)
	for r := range reports {
		uses := make(map[string]wire.Use)
		for i := range benchReplicas / 100 {
			uses[replicaID((i*100+r*37)%benchReplicas)] = wire.Use{Age: 0.5, InFlight: i % 3}
		}
		reports[r] = wire.Report{Router: fmt.Sprintf("router-%d", r), Boot: 1, Uses: uses}
	}
	return reports
}

// benchHeartbeats are those of one interval: 1,000 agents with 50 doors each.
func benchHeartbeats(l *idle.Ledger) []wire.Heartbeat {
	stamp := l.Stamp(start)
	beats := make([]wire.Heartbeat, 1000)
	for n := range beats {
		beats[n].Node = fmt.Sprintf("gpu-%03d", n)
		for i := range benchReplicas / len(beats) {
			beats[n].Readings = append(beats[n].Readings, wire.Reading{
				Replica: replicaID(n*50 + i), Shim: 1, Engine: 1, ReadyAge: seconds(hour), UseAge: seconds(time.Minute), Stamp: &stamp,
			})
		}
	}
	return beats
}

// BenchmarkTick merges everything that the leader of a large fleet hears in one second; ns/op is CPU per second.
func BenchmarkTick(b *testing.B) {
	l := idle.New("peer-1", 1)
	reports, beats := benchReports(), benchHeartbeats(l)
	now := start
	for b.Loop() {
		now += time.Second
		merge(l, now, reports, beats)
	}
}

func merge(l *idle.Ledger, now time.Duration, reports []wire.Report, beats []wire.Heartbeat) {
	for i := range reports {
		reports[i].Seq++
		l.Report(now, reports[i])
	}
	for i := range beats {
		for j := range beats[i].Readings {
			beats[i].Readings[j].Number++
		}
		l.Heartbeat(now, beats[i])
	}
}

// BenchmarkTickFromTheWire is BenchmarkTick with the reading of the JSON that the messages come in.
func BenchmarkTickFromTheWire(b *testing.B) {
	l := idle.New("peer-1", 1)
	var reports, beats [][]byte
	for _, r := range benchReports() {
		reports = append(reports, encode(b, r))
	}
	for _, h := range benchHeartbeats(l) {
		beats = append(beats, encode(b, h))
	}
	now, tick := start, uint64(0)
	b.ReportAllocs()
	for b.Loop() {
		now += time.Second
		tick++
		for _, data := range reports {
			r, err := wire.ReadReport(data)
			if err != nil {
				b.Fatal(err)
			}
			r.Seq = tick
			l.Report(now, r)
		}
		for _, data := range beats {
			h, err := wire.ReadHeartbeat(data)
			if err != nil {
				b.Fatal(err)
			}
			for i := range h.Readings {
				h.Readings[i].Number = tick
			}
			l.Heartbeat(now, h)
		}
	}
}

func encode(b *testing.B, v any) []byte {
	data, err := json.Marshal(v)
	if err != nil {
		b.Fatal(err)
	}
	return data
}

func BenchmarkReports(b *testing.B) {
	l := idle.New("peer-1", 1)
	reports := benchReports()
	now := start
	b.ReportAllocs()
	for b.Loop() {
		now += time.Second
		merge(l, now, reports, nil)
	}
}

func BenchmarkHeartbeats(b *testing.B) {
	l := idle.New("peer-1", 1)
	beats := benchHeartbeats(l)
	now := start
	b.ReportAllocs()
	for b.Loop() {
		now += time.Second
		merge(l, now, nil, beats)
	}
}

// BenchmarkViews asks for every replica, as status does.
func BenchmarkViews(b *testing.B) {
	l := idle.New("peer-1", 1)
	merge(l, start, nil, benchHeartbeats(l))
	ids := make([]string, benchReplicas)
	for i := range ids {
		ids[i] = replicaID(i)
	}
	b.ReportAllocs()
	for b.Loop() {
		for _, id := range ids {
			if v := l.View(start+time.Second, id); !v.QuietKnown {
				b.Fatal(v.Why)
			}
		}
	}
}

// BenchmarkEntry reports the memory of one replica's entry, which no number of routers or ticks makes larger.
func BenchmarkEntry(b *testing.B) {
	reports := benchReports()
	for b.Loop() {
		l := idle.New("peer-1", 1)
		before := heapInUse()
		for tick := range 3 {
			merge(l, start+time.Duration(tick)*time.Second, reports, benchHeartbeats(l))
		}
		b.ReportMetric(float64(heapInUse()-before)/benchReplicas, "B/entry")
		runtime.KeepAlive(l)
	}
}

func heapInUse() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}
