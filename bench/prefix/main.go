package main

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"
)

func main() {
	data := flag.String("data", dataDir(), "folder with mooncake/*.jsonl")
	file := flag.String("trace", "", "a trace of the same form instead of those")
	out := flag.String("json", "", "also write everything to this file")
	var f fleet
	flag.IntVar(&f.engines, "engines", 8, "engines")
	flag.IntVar(&f.cache, "cache", 4000, "blocks of 512 tokens that an engine keeps")
	flag.Float64Var(&f.prefill, "prefill", 8000, "tokens of prompts a second that an engine computes")
	flag.DurationVar(&f.token, "token", 25*time.Millisecond, "between two tokens of an answer")
	seed := flag.Uint64("seed", 42, "of all that is left to chance")
	flag.Parse()
	if err := bench(*data, *file, f, *seed, *out); err != nil {
		fmt.Fprintln(os.Stderr, "prefix:", err)
		os.Exit(1)
	}
}

func dataDir() string {
	if dir := os.Getenv("BERTH_DATA"); dir != "" {
		return dir
	}
	return "../shared/data"
}

func bench(data, file string, f fleet, seed uint64, out string) error {
	files := []string{file}
	if file == "" {
		var err error
		if files, err = filepath.Glob(filepath.Join(data, "mooncake", "*.jsonl")); err != nil {
			return err
		}
		if len(files) == 0 {
			return fmt.Errorf("no trace is at %s; say where it is with -data, BERTH_DATA or -trace: %w", filepath.Join(data, "mooncake"), fs.ErrNotExist)
		}
	}
	var reports []report
	for _, path := range files {
		trace, err := readTrace(path)
		if err != nil {
			return err
		}
		r := report{Trace: filepath.Base(path), Count: len(trace), Engines: f.engines, Cache: f.cache, Prefill: f.prefill, Token: f.token.Seconds()}
		for _, p := range policies() {
			r.Results = append(r.Results, p.run(trace, f, seed))
		}
		r.Bound = bound(trace, f)
		r.compare()
		r.print(os.Stdout)
		reports = append(reports, r)
	}
	if out == "" {
		return nil
	}
	text, err := json.MarshalIndent(reports, "", " ")
	return errors.Join(err, os.WriteFile(out, append(text, '\n'), 0o644))
}

// report is a trace's results and what they come to.
type report struct {
	Trace   string   `json:"trace"`
	Count   int      `json:"requests"`
	Engines int      `json:"engines"`
	Cache   int      `json:"cache_blocks"`
	Prefill float64  `json:"prefill_tokens_per_second"`
	Token   float64  `json:"token_seconds"`
	Results []result `json:"results"`

	Best   string  `json:"best_baseline"`         // by its p90
	Ratio  float64 `json:"p90_ratio"`             // of ttft with one router to it; the goal is 0.6 at most
	Queues float64 `json:"p90_ratio_to_informed"` // to the one that reads the engines' queues
	Bound  float64 `json:"p90_bound_seconds"`     // of any policy: one cache without end, and nobody ever waits
	Agreed float64 `json:"hits_of_3_over_1"`      // hit rate of three routers over that of one; the goal is 0.9 at least
}

func (r *report) compare() {
	var best, informed, one, three *result
	for i := range r.Results {
		p := &r.Results[i]
		switch {
		case p.Baseline && (best == nil || p.P90 < best.P90):
			best = p
		case p.Informed:
			informed = p
		case p.Policy == "ttft" && p.Routers == 1:
			one = p
		case p.Policy == "ttft" && p.Routers == 3:
			three = p
		}
	}
	r.Best, r.Ratio, r.Queues, r.Agreed = best.Policy, one.P90/best.P90, one.P90/informed.P90, three.Hits/one.Hits
}

func (r *report) print(w io.Writer) {
	fmt.Fprintf(w, "%s: %d requests, %d engines of %g tokens/s with %d blocks\n", r.Trace, r.Count, r.Engines, r.Prefill, r.Cache)
	fmt.Fprintf(w, "%-20s %7s %8s %8s %8s %7s %10s %10s\n", "policy", "routers", "p50", "p90", "p99", "hits", "requests", "computed")
	for _, p := range r.Results {
		name := p.Policy
		if p.Routers > 0 {
			name = "berth " + name
		}
		fmt.Fprintf(w, "%-20s %7d %7.2fs %7.2fs %7.2fs %6.1f%% %9.2fx %9.2fx\n", name, max(p.Routers, 1), p.P50, p.P90, p.P99, 100*p.Hits, p.Requests, p.Computed)
	}
	fmt.Fprintf(w, "p90 of berth ttft is %.2f of the best baseline's that knows what a router knows (%s; goal 0.60 at most),\n"+
		"%.2f of llm-d-style's that reads the engines' queues without delay; no policy could be below %.2fs.\n"+
		"Three routers that share nothing have %.2f of one's hits (goal 0.90 at least).\n\n", r.Ratio, r.Best, r.Queues, r.Bound, r.Agreed)
}
