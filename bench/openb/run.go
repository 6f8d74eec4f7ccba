package main

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"time"
)

// run is what one policy did with one order of arrival.
type run struct {
	Trace   string  `json:"trace"`
	Policy  string  `json:"policy"`
	Seed    uint64  `json:"seed"`
	At100   float64 `json:"allocated_percent_at_100"`
	At130   float64 `json:"allocated_percent_at_130"`
	Dropped int     `json:"dropped"`
	P50     float64 `json:"decision_p50_us"`
	P99     float64 `json:"decision_p99_us"`
}

// workload is one trace on the cluster.
type workload struct {
	trace    string
	machines []machine
	tasks    []task
	specs    []string
	capacity int
}

func newWorkload(from files, trace string) (*workload, error) {
	machines, err := from.machines()
	if err != nil {
		return nil, err
	}
	tasks, err := from.tasks(trace)
	if err != nil {
		return nil, err
	}
	w := &workload{trace: trace, machines: machines, tasks: tasks}
	for _, m := range machines {
		w.capacity += m.gpus * card
	}
	for _, t := range tasks {
		if t.spec != "" && !slices.Contains(w.specs, t.spec) {
			w.specs = append(w.specs, t.spec)
		}
	}
	return w, nil
}

// names of the policies, Berth last.
var names = []string{"Random", "BestFit", "FGD", "Berth"}

func (w *workload) policy(name string, seed uint64) policy {
	machines := renamed(rand.New(rand.NewPCG(seed, 2)), w.machines)
	switch name {
	case "Random":
		return newBaseline(machines, random{rand.New(rand.NewPCG(seed, 1))})
	case "BestFit":
		return newBaseline(machines, bestFit{})
	case "FGD":
		return newBaseline(machines, &fgd{typicalOf(w.tasks)})
	default:
		return newPlanner(machines, w.specs)
	}
}

// renamed returns the machines with names in a random order, and in the order of those names: the paper's simulator puts a random number before each name,
// so that the first by name is another kind of machine in each run. In the order of the file, which is grouped by model of GPU, a policy that takes the first
// of equals uses one model up before the next, and FGD ends half a point below what was published where tasks ask for models (gpuspec33).
func renamed(r *rand.Rand, machines []machine) []machine {
	out := slices.Clone(machines)
	r.Shuffle(len(out), func(i, j int) { out[i], out[j] = out[j], out[i] })
	for i := range out {
		out[i].name = fmt.Sprintf("%05d-%s", i, out[i].name)
	}
	return out
}

func (w *workload) run(name string, seed uint64) run {
	out := run{Trace: w.trace, Policy: name, Seed: seed}
	p := w.policy(name, seed)
	arriving := arrivals(rand.New(rand.NewPCG(seed, 0)), w.tasks, w.capacity*130/100)
	took := make([]time.Duration, 0, len(arriving))
	demand, allocated := 0, 0
	for i := range arriving {
		t := &arriving[i]
		if before := demand; before < w.capacity && before+t.demand() >= w.capacity {
			out.At100 = percent(allocated, w.capacity)
		}
		demand += t.demand()
		start := time.Now()
		ok := p.place(t)
		took = append(took, time.Since(start))
		if ok {
			allocated += t.demand()
		} else {
			out.Dropped++
		}
	}
	out.At130 = percent(allocated, w.capacity)
	slices.Sort(took)
	out.P50, out.P99 = micros(took[len(took)/2]), micros(took[len(took)*99/100])
	return out
}

func percent(part, whole int) float64 { return 100 * float64(part) / float64(whole) }

func micros(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1000 }

// runAll runs every policy with every seed, so many at a time; the results are in order.
func (w *workload) runAll(seeds []uint64, workers int) []run {
	out := make([]run, len(names)*len(seeds))
	next := make(chan int)
	var wg sync.WaitGroup
	for range workers {
		wg.Go(func() {
			for i := range next {
				out[i] = w.run(names[i/len(seeds)], seeds[i%len(seeds)])
			}
		})
	}
	for i := range out {
		next <- i
	}
	close(next)
	wg.Wait()
	return out
}

// spread is a mean and the standard deviation about it.
type spread struct {
	Mean float64 `json:"mean"`
	SD   float64 `json:"sd"`
}

func over(runs []run, of func(run) float64) spread {
	var s spread
	for _, r := range runs {
		s.Mean += of(r) / float64(len(runs))
	}
	for _, r := range runs {
		s.SD += (of(r) - s.Mean) * (of(r) - s.Mean) / float64(max(1, len(runs)-1))
	}
	s.SD = math.Sqrt(s.SD)
	return s
}
