package main

import (
	"fmt"
	"io"
	"runtime"
	"slices"
	"text/tabwriter"
	"time"

	"berth/fleet"
	"berth/scheduler"
)

// size is what was measured on a fleet of one size.
type size struct {
	Nodes   int     `json:"nodes"`
	LayMs   float64 `json:"first_look_ms"` // laying the cards out, and the first decision of either kind
	Singles stream  `json:"singles"`
	Gangs   stream  `json:"gangs"`
	// Used is the nodes with a one-GPU replica after those; Least is the fewest that would do.
	Used    int     `json:"nodes_used"`
	Least   int     `json:"nodes_needed"`
	PlanMs  float64 `json:"one_plan_of_all_ms"` // a Plan that places all of them at once, from nothing
	Again   stream  `json:"plan_again"`         // plans of a Planner, each after one replica more is wanted
	HeapMiB float64 `json:"heap_mib"`
}

// stream is decisions one after the other.
type stream struct {
	Count     int     `json:"count"`
	PerSecond float64 `json:"per_second"`
	P50       float64 `json:"p50_us"`
	P99       float64 `json:"p99_us"`
	Max       float64 `json:"max_us"`
}

func summary(took []time.Duration) stream {
	if len(took) == 0 {
		return stream{}
	}
	var sum time.Duration
	for _, d := range took {
		sum += d
	}
	slices.Sort(took)
	us := func(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1000 }
	return stream{len(took), float64(len(took)) / sum.Seconds(), us(took[len(took)/2]), us(took[len(took)*99/100]), us(took[len(took)-1])}
}

func measure(nodes, singles, gangs int) size {
	out := size{Nodes: nodes, Least: (singles + 7) / 8}
	gangs = min(gangs, (nodes-out.Least)/2*15/16) // no gang spans the ends of two fabrics
	one, two := newModel("one", 1, 1, singles), newModel("two", 2, 8, gangs)
	s := newFleet(nodes)
	s.Models = []*fleet.Model{one, two}
	s.Asked = scheduler.AskedBy(s.Models)

	start := time.Now()
	p := scheduler.NewPlacer(s)
	for _, m := range s.Models {
		shards, _ := p.Place(&m.Spec)
		p.Release(&m.Spec, shards)
	}
	out.LayMs = ms(start)
	var placed [][]fleet.Shard
	out.Singles, placed = decide(p, &one.Spec, singles)
	out.Used = nodesUsed(placed)
	out.Gangs, _ = decide(p, &two.Spec, gangs)
	out.HeapMiB = heap()
	runtime.KeepAlive(p)

	start = time.Now()
	plan := scheduler.Plan(s)
	out.PlanMs = ms(start)
	out.Again = again(s, plan)
	return out
}

func ms(since time.Time) float64 { return float64(time.Since(since).Microseconds()) / 1000 }

// decide places n replicas, or as many as there is room for, and times each decision.
func decide(p *scheduler.Placer, spec *fleet.ModelSpec, n int) (stream, [][]fleet.Shard) {
	took, out := make([]time.Duration, 0, n), make([][]fleet.Shard, 0, n)
	for range n {
		start := time.Now()
		shards, ok := p.Place(spec)
		took = append(took, time.Since(start))
		if !ok {
			break
		}
		out = append(out, shards)
	}
	return summary(took), out
}

// again times plans of a leader that follows the state, on a fleet on which everything runs already and one model wants one replica more each time: to take
// in what has changed, and to plan.
func again(s scheduler.Snapshot, plan fleet.Plan) stream {
	const plans = 200
	f := follow(s)
	f.applies(plan)
	var planner scheduler.Planner
	planner.Plan(f.next())
	var took []time.Duration
	for range plans {
		f.wants()
		start := time.Now()
		plan := planner.Plan(f.next())
		took = append(took, time.Since(start))
		if f.applies(plan) == 0 {
			break
		}
	}
	return summary(took)
}

func heap() float64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return float64(m.HeapAlloc) / (1 << 20)
}

func printSizes(to io.Writer, sizes []size) {
	w := tabwriter.NewWriter(to, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "nodes\tfirst look ms\tone GPU /s\tp50 us\tp99 us\tgangs /s\tp50 us\tp99 us\tnodes used / needed\tall in one plan ms\tplan again p50 us\tp99 us\theap MiB\t")
	for _, s := range sizes {
		fmt.Fprintf(w, "%d\t%.1f\t%.0f\t%.1f\t%.1f\t%.0f\t%.1f\t%.1f\t%d / %d\t%.1f\t%.0f\t%.0f\t%.0f\t\n", s.Nodes, s.LayMs, s.Singles.PerSecond, s.Singles.P50, s.Singles.P99,
			s.Gangs.PerSecond, s.Gangs.P50, s.Gangs.P99, s.Used, s.Least, s.PlanMs, s.Again.P50, s.Again.P99, s.HeapMiB)
	}
	w.Flush()
}
