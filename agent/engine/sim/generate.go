package sim

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// work is one prompt and what became of it.
type work struct {
	prompt  []int64
	limit   int // most tokens to make
	natural int // where the answer ends by itself
	turn    chan struct{}

	arrived, firstToken time.Time
	cached, made, held  int // tokens from the cache; tokens made; blocks held
	tokens              []int64
}

// generate makes w's answer, token by token at the engine's pace. emit gets each
// token's text when its time has come. The reason is "stop" or "length".
func (c *call) generate(w *work, emit func(text string) error) (reason string, err error) {
	end, err := c.begin(w)
	if err != nil {
		return "", err
	}
	defer func() { end(reason) }()
	words := newBabble(w.prompt)
	due := w.firstToken
	for w.made < min(w.limit, w.natural) {
		if err := c.oneToken(w, words.next(), emit); err != nil {
			return "", err
		}
		if w.made == min(w.limit, w.natural) {
			break
		}
		if r := c.cfg.TokensPerSecond; r > 0 {
			due = due.Add(time.Duration(float64(time.Second) / r)) // from the plan, not from now: no drift
		}
		if err := pause(c.r.Context(), time.Until(due)); err != nil {
			return "", err
		}
	}
	if w.made < w.natural {
		return "length", nil
	}
	return "stop", nil
}

func (c *call) oneToken(w *work, text string, emit func(string) error) error {
	if w.made > 0 {
		if r := c.cfg.TokensPerSecond; r > 0 {
			c.stats.interToken.Observe(1 / r)
		}
	}
	w.made++
	w.tokens = append(w.tokens, number(text))
	c.stats.generatedTokens.Inc()
	c.grow(w)
	if err := emit(text); err != nil {
		return err
	}
	return c.strike(w.made)
}

// enqueue takes w's place in the queue, or refuses it. leave gives the place or the
// slot back.
func (c *call) enqueue(w *work) (leave func(), err error) {
	turn, err := c.slots.join()
	if errors.Is(err, errQueueFull) {
		c.stats.rejected.Inc()
		return nil, unavailable(fmt.Sprintf("The server is overloaded: %d requests wait.", c.cfg.MaxQueued))
	}
	w.turn = turn
	return func() { c.slots.leave(turn) }, err
}

// begin waits for w's turn and for the prompt's processing. end must be called, with
// "" for an aborted request; what was computed stays in the cache either way.
func (c *call) begin(w *work) (end func(reason string), err error) {
	ctx := c.r.Context()
	select {
	case <-w.turn:
	case <-ctx.Done():
		c.stats.observe(w, "abort", time.Now())
		return nil, context.Cause(ctx)
	}
	c.stats.queueTime.Observe(time.Since(w.arrived).Seconds())
	w.cached = c.cache.lookup(w.prompt)
	c.stats.prefixQueries.Add(float64(len(w.prompt)))
	c.stats.prefixHits.Add(float64(w.cached))
	c.grow(w)
	c.ledger.update(func() { c.rec.CachedTokens = w.cached })
	began := time.Now()
	end = func(reason string) { c.end(w, reason) }
	if err := pause(ctx, c.prefillTime(len(w.prompt)-w.cached)); err != nil {
		end("")
		return nil, err
	}
	w.firstToken = time.Now()
	c.stats.promptTokens.Add(float64(len(w.prompt)))
	c.stats.prefill.Observe(w.firstToken.Sub(began).Seconds())
	c.stats.firstToken.Observe(w.firstToken.Sub(w.arrived).Seconds())
	return end, nil
}

func (c *call) end(w *work, reason string) {
	if reason == "" {
		reason = "abort"
	}
	if !w.firstToken.IsZero() {
		c.cache.insert(append(w.prompt[:len(w.prompt):len(w.prompt)], w.tokens...))
	}
	c.stats.observe(w, reason, time.Now())
	c.ledger.update(func() { c.rec.CompletionTokens = w.made })
	c.slots.hold(-w.held)
}

// grow makes w hold the blocks that its tokens fill.
func (c *call) grow(w *work) {
	if n := blocksOf(len(w.prompt) + w.made); n > w.held {
		c.slots.hold(n - w.held)
		w.held = n
	}
}

// prefillTime is the time to the first token: TTFT = base + uncached / rate.
func (c *call) prefillTime(uncached int) time.Duration {
	d := c.cfg.TTFT
	if r := c.cfg.PrefillRate; r > 0 {
		d += time.Duration(float64(uncached) / r * float64(time.Second))
	}
	return d
}

// gone is the error of a client that does not take what is written.
func (c *call) gone(err error) error {
	if ctx := c.r.Context(); ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return fmt.Errorf("write to the client: %w", err)
}
