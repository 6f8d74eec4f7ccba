package main

import (
	"container/list"
	"time"
)

// fleet is the shape of what is simulated.
type fleet struct {
	engines int
	cache   int           // blocks that an engine keeps
	prefill float64       // tokens a second
	token   time.Duration // between two tokens of an answer
}

// cache is an engine's blocks, least recently used out first. A block's name covers what is before it, as the trace's do.
type cache struct {
	room  int
	order *list.List // of uint64, newest first
	at    map[uint64]*list.Element
}

func newCache(room int) *cache {
	return &cache{room: room, order: list.New(), at: make(map[uint64]*list.Element)}
}

// has is how many blocks at the begin are there.
func (c *cache) has(blocks []uint64) int {
	n := 0
	for n < len(blocks) && c.at[blocks[n]] != nil {
		n++
	}
	return n
}

// keep uses the blocks: the first of a prompt outlives what follows it.
func (c *cache) keep(blocks []uint64) {
	for i := len(blocks) - 1; i >= 0; i-- {
		if e := c.at[blocks[i]]; e != nil {
			c.order.MoveToFront(e)
			continue
		}
		c.at[blocks[i]] = c.order.PushFront(blocks[i])
	}
	for c.order.Len() > c.room {
		delete(c.at, c.order.Remove(c.order.Back()).(uint64))
	}
}

// engine computes one prompt after another.
type engine struct {
	fleet    fleet
	cache    *cache
	free     time.Duration // when it has computed all that it has
	waiting  int           // requests whose first token has not come
	inFlight int
	requests int
	computed int // tokens
}

// queue is how many requests wait for their computing to begin.
func (e *engine) queue() int { return max(e.waiting-1, 0) }

// take puts a request into the engine and returns when its first token comes, when it ends, and how many of its tokens
// were cached. What is cached when it is its turn is what is cached now and what those before it bring, which are in the
// cache already.
func (e *engine) take(r *request, now time.Duration) (first, end time.Duration, cached int) {
	cached = r.tokens(e.cache.has(r.blocks))
	e.cache.keep(r.blocks)
	rest := r.input - cached
	e.free = max(e.free, now) + time.Duration(float64(rest)/e.fleet.prefill*float64(time.Second))
	e.waiting++
	e.inFlight++
	e.requests++
	e.computed += rest
	return e.free, e.free + time.Duration(r.output)*e.fleet.token, cached
}
