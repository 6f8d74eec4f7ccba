package main

import "math/rand/v2"

// chooser chooses an engine for a request. It is told when a request's first token and its end came.
type chooser interface {
	choose(r *request) (engine int, h handle)
}

// handle is a request that a chooser has placed; nil where that is nothing to it.
type handle interface {
	first()
	end()
}

// The baselines see the engines themselves.
type random struct {
	engines []*engine
	rand    *rand.Rand
}

func (c *random) choose(*request) (int, handle) { return c.rand.IntN(len(c.engines)), nil }

// least returns the engine for which cost is least; ties are broken at random.
func least(engines []*engine, r *rand.Rand, cost func(*engine) float64) int {
	best, n := 0, 0
	for i, e := range engines {
		switch c := cost(e) - cost(engines[best]); {
		case i == 0 || c < 0:
			best, n = i, 1
		case c == 0:
			if n++; r.IntN(n) == 0 {
				best = i
			}
		}
	}
	return best
}

// sglang is the cache-aware policy of SGLang's router with its usual settings: the engine with the longest match if that
// is more than 0.3 of the prompt, otherwise the one with the most room in its cache; the one with the shortest queue
// when the numbers in flight differ by more than 64 and by more than half (sgl-project/sglang, sgl-router's
// cache_threshold, balance_abs_threshold, balance_rel_threshold).
type sglang struct{ random }

func (c *sglang) choose(r *request) (int, handle) {
	load := func(e *engine) float64 { return float64(e.inFlight) }
	low := least(c.engines, c.rand, load)
	high := least(c.engines, c.rand, func(e *engine) float64 { return -load(e) })
	if l, h := c.engines[low].inFlight, c.engines[high].inFlight; h-l > 64 && float64(h) > 1.5*float64(l) {
		return low, nil
	}
	best := least(c.engines, c.rand, func(e *engine) float64 { return -float64(e.cache.has(r.blocks)) })
	if float64(c.engines[best].cache.has(r.blocks)) > 0.3*float64(len(r.blocks)) {
		return best, nil
	}
	return least(c.engines, c.rand, func(e *engine) float64 { return float64(e.cache.order.Len()) }), nil
}

// llmd is the scoring of llm-d's router with a prefix scorer of weight 2 and a queue scorer of weight 1, each between 0
// and 1 over the engines (llm-d/llm-d-router). queue is the requests in flight, which a router knows by itself, or those
// that wait in the engine, which it reads from there; here without any delay.
type llmd struct {
	random
	queue func(*engine) int
}

func (c *llmd) choose(r *request) (int, handle) {
	low, high := c.queue(c.engines[0]), c.queue(c.engines[0])
	for _, e := range c.engines {
		low, high = min(low, c.queue(e)), max(high, c.queue(e))
	}
	return least(c.engines, c.rand, func(e *engine) float64 {
		queue := 1.0
		if high > low {
			queue = float64(high-c.queue(e)) / float64(high-low)
		}
		return -2*float64(e.cache.has(r.blocks))/float64(len(r.blocks)) - queue
	}), nil
}

// chwbl is consistent hashing with loads bounded to 1.25 of the mean, of the first two blocks (KubeAI's, with a longer
// prefix than its default of a hundred letters, which every request of such a trace shares).
type chwbl struct{ random }

func (c *chwbl) choose(r *request) (int, handle) {
	key, sum := uint64(0), 1
	for _, b := range r.blocks[:min(2, len(r.blocks))] {
		key = key*1_000_003 + b + 1
	}
	for _, e := range c.engines {
		sum += e.inFlight
	}
	order := rand.New(rand.NewPCG(key, 0)).Perm(len(c.engines))
	for _, i := range order {
		if float64(c.engines[i].inFlight+1) <= max(1.25*float64(sum)/float64(len(c.engines)), 1) {
			return i, nil
		}
	}
	return order[0], nil
}

// leastLoad takes the engine with the fewest requests in flight.
type leastLoad struct{ random }

func (c *leastLoad) choose(*request) (int, handle) {
	return least(c.engines, c.rand, func(e *engine) float64 { return float64(e.inFlight) }), nil
}

// roundRobin takes turns.
type roundRobin struct {
	random
	next int
}

func (c *roundRobin) choose(*request) (int, handle) {
	c.next++
	return c.next % len(c.engines), nil
}
