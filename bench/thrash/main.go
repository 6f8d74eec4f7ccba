// Command thrash plays random requests for more models than there is room for, in virtual time, and counts how often models are loaded: under the
// planner of this repository, and under plain LRU, which evicts the least recently used model on every miss. It owns the workload and its figures
// and must never know how the planner decides.
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"slices"
	"time"
)

// Workload is what is played.
type Workload struct {
	Models int           `json:"models"`
	Room   int           `json:"room"` // models that fit at once
	Every  time.Duration `json:"-"`    // mean time between two requests
	Load   time.Duration `json:"-"`    // of one model
	Length time.Duration `json:"-"`
	Seed   uint64        `json:"seed"`
}

// Result is what came of it under one policy.
type Result struct {
	Policy           string  `json:"policy"`
	MinResidence     float64 `json:"min_residence_seconds"`
	Loads            int     `json:"loads"`
	Bound            int     `json:"loads_bound,omitempty"` // room × (length / min_residence + 1); 0: none
	Requests         int     `json:"requests"`
	Served           int     `json:"served"`
	Refused          int     `json:"refused"` // 503 with Retry-After
	WaitP50          float64 `json:"wait_p50_seconds"`
	WaitP99          float64 `json:"wait_p99_seconds"`
	ShareOfLRUsLoads float64 `json:"share_of_lru_loads"`
}

func main() {
	w := Workload{}
	flag.IntVar(&w.Models, "models", 5, "models that are asked for")
	flag.IntVar(&w.Room, "room", 2, "models that fit at once")
	flag.DurationVar(&w.Every, "every", 10*time.Second, "mean time between two requests")
	flag.DurationVar(&w.Load, "load", time.Minute, "time to load a model")
	flag.DurationVar(&w.Length, "length", 24*time.Hour, "virtual time to play")
	flag.Uint64Var(&w.Seed, "seed", 1, "seed of the requests")
	out := flag.String("json", "", "file for the figures")
	flag.Parse()
	if err := run(w, *out); err != nil {
		fmt.Fprintln(os.Stderr, "thrash:", err)
		os.Exit(1)
	}
}

func run(w Workload, out string) error {
	results := compare(w)
	fmt.Printf("%d models, room for %d, a request every %s on average, loading takes %s, %s of virtual time, seed %d\n", w.Models, w.Room, w.Every, w.Load, w.Length, w.Seed)
	fmt.Printf("%-8s %14s %7s %7s %9s %7s %8s %9s %9s\n", "POLICY", "MIN_RESIDENCE", "LOADS", "BOUND", "REQUESTS", "SERVED", "REFUSED", "WAIT-P50", "WAIT-P99")
	for _, r := range results {
		bound := "-"
		if r.Bound > 0 {
			bound = fmt.Sprint(r.Bound)
		}
		fmt.Printf("%-8s %13.0fs %7d %7s %9d %7d %8d %8.1fs %8.1fs\n", r.Policy, r.MinResidence, r.Loads, bound, r.Requests, r.Served, r.Refused, r.WaitP50, r.WaitP99)
	}
	if out == "" {
		return nil
	}
	data, err := json.MarshalIndent(map[string]any{
		"benchmark": "thrash", "workload": w, "every_seconds": w.Every.Seconds(), "load_seconds": w.Load.Seconds(), "length_seconds": w.Length.Seconds(), "results": results,
	}, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(out, append(data, '\n'), 0o644)
}

// compare plays the same requests under LRU and under the planner with several values of min_residence.
func compare(w Workload) []Result {
	results := []Result{play(w, "lru", 0)}
	for _, residence := range []time.Duration{0, time.Minute, 10 * time.Minute} {
		results = append(results, play(w, "berth", residence))
	}
	for i := range results {
		results[i].ShareOfLRUsLoads = float64(results[i].Loads) / float64(max(1, results[0].Loads))
	}
	return results
}

func play(w Workload, policy string, residence time.Duration) Result {
	s := newSim(w)
	var p decider = &lru{s}
	if policy == "berth" {
		p = newPlanned(s, residence)
	}
	for s.now < w.Length {
		s.tick()
		p.decide()
	}
	r := Result{
		Policy: policy, MinResidence: residence.Seconds(), Loads: s.loads, Requests: s.requests, Served: len(s.waits), Refused: s.refused,
		WaitP50: quantile(s.waits, 0.5), WaitP99: quantile(s.waits, 0.99),
	}
	if residence > 0 {
		r.Bound = w.Room * (int(w.Length/residence) + 1)
	}
	return r
}

func quantile(waits []time.Duration, q float64) float64 {
	if len(waits) == 0 {
		return 0
	}
	slices.Sort(waits)
	return waits[int(q*float64(len(waits)-1))].Seconds()
}
