package main

import (
	"container/heap"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"berth/router"
)

// result is what one policy made of a trace.
type result struct {
	Policy   string  `json:"policy"`
	Baseline bool    `json:"baseline"`
	Informed bool    `json:"informed"` // a baseline that reads the engines' queues without delay
	Routers  int     `json:"routers"`
	P50      float64 `json:"ttft_p50_seconds"`
	P90      float64 `json:"ttft_p90_seconds"`
	P99      float64 `json:"ttft_p99_seconds"`
	Hits     float64 `json:"hit_rate"`             // of the prompts' tokens
	Requests float64 `json:"requests_max_of_mean"` // of the engines
	Computed float64 `json:"computed_max_of_mean"`
}

// policy is one that is measured. make gets the engines, the virtual time and a source of chance.
type policy struct {
	name     string
	baseline bool
	informed bool
	routers  int
	make     func(engines []*engine, now func() time.Duration, r *rand.Rand) chooser
}

func policies() []policy {
	seen := func(name string, f func(random) chooser) policy {
		return policy{name: name, baseline: true, make: func(e []*engine, _ func() time.Duration, r *rand.Rand) chooser { return f(random{e, r}) }}
	}
	ours := func(name string, routers int) policy {
		return policy{name: name, routers: routers, make: func(e []*engine, now func() time.Duration, r *rand.Rand) chooser {
			return newBerth(name, routers, len(e), now, r.IntN)
		}}
	}
	return []policy{
		seen("random", func(r random) chooser { return &r }),
		seen("round-robin, alone", func(r random) chooser { return &roundRobin{random: r} }),
		seen("least in flight", func(r random) chooser { return &leastLoad{r} }),
		seen("bounded hashing", func(r random) chooser { return &chwbl{r} }),
		seen("SGLang-style", func(r random) chooser { return &sglang{r} }),
		seen("llm-d-style", func(r random) chooser { return &llmd{r, func(e *engine) int { return e.inFlight }} }),
		{name: "llm-d-style, queues", informed: true, make: func(e []*engine, _ func() time.Duration, r *rand.Rand) chooser {
			return &llmd{random{e, r}, (*engine).queue}
		}},
		ours("ttft", 1), ours("ttft", 3), ours("prefix-bounded", 1), ours("prefix-bounded", 3), ours("least-loaded", 1), ours("round-robin", 1),
	}
}

// event is a first token or an end.
type event struct {
	at   time.Duration
	do   func()
	turn int // of equals, the one that was made first goes first
}

type events []event

func (e events) Len() int { return len(e) }
func (e events) Less(i, j int) bool {
	return e[i].at < e[j].at || e[i].at == e[j].at && e[i].turn < e[j].turn
}
func (e events) Swap(i, j int) { e[i], e[j] = e[j], e[i] }
func (e *events) Push(x any)   { *e = append(*e, x.(event)) }
func (e *events) Pop() any {
	last := (*e)[len(*e)-1]
	*e = (*e)[:len(*e)-1]
	return last
}

// run replays the trace.
func (p policy) run(trace []request, f fleet, seed uint64) result {
	now, turn := time.Duration(0), 0
	var due events
	var engines []*engine
	for range f.engines {
		engines = append(engines, &engine{fleet: f, cache: newCache(f.cache)})
	}
	c := p.make(engines, func() time.Duration { return now }, rand.New(rand.NewPCG(seed, 5)))
	at := func(t time.Duration, do func()) {
		turn++
		heap.Push(&due, event{t, do, turn})
	}
	if b, ok := c.(*berth); ok {
		var look func()
		look = func() {
			b.look(engines)
			at(now+router.EngineLook, look)
		}
		at(router.EngineLook, look)
	}
	var ttft []time.Duration
	tokens, cached := 0, 0
	for i := range trace {
		r := &trace[i]
		for len(due) > 0 && due[0].at <= r.at {
			e := heap.Pop(&due).(event)
			now = e.at
			e.do()
		}
		now = r.at
		n, h := c.choose(r)
		e := engines[n]
		first, end, hit := e.take(r, now)
		ttft = append(ttft, first-now)
		tokens, cached = tokens+r.input, cached+hit
		at(first, func() {
			e.waiting--
			if h != nil {
				h.first()
			}
		})
		at(end, func() {
			e.inFlight--
			if h != nil {
				h.end()
			}
		})
	}
	slices.Sort(ttft)
	quantile := func(q float64) float64 { return ttft[min(int(q*float64(len(ttft))), len(ttft)-1)].Seconds() }
	return result{Policy: p.name, Baseline: p.baseline, Informed: p.informed, Routers: p.routers, P50: quantile(.5), P90: quantile(.9), P99: quantile(.99), Hits: float64(cached) / float64(tokens),
		Requests: uneven(engines, func(e *engine) int { return e.requests }), Computed: uneven(engines, func(e *engine) int { return e.computed })}
}

// uneven is the most of the engines over their mean.
func uneven(engines []*engine, of func(*engine) int) float64 {
	sum, most := 0, 0
	for _, e := range engines {
		sum, most = sum+of(e), max(most, of(e))
	}
	return float64(most) * float64(len(engines)) / float64(sum)
}

// bound is the p90 that no policy can beat: each prompt begins at once, on an engine that has all that ever came before.
func bound(trace []request, f fleet) float64 {
	all := newCache(math.MaxInt)
	var ttft []float64
	for i := range trace {
		r := &trace[i]
		ttft = append(ttft, float64(r.input-r.tokens(all.has(r.blocks)))/f.prefill)
		all.keep(r.blocks)
	}
	slices.Sort(ttft)
	return ttft[min(len(ttft)*9/10, len(ttft)-1)]
}
