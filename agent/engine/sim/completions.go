package sim

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"
)

// usage is OpenAI's account of tokens.
type usage struct {
	PromptTokens     int `json:"prompt_tokens"`
	TotalTokens      int `json:"total_tokens"`
	CompletionTokens int `json:"completion_tokens"`
	Details          struct {
		CachedTokens int `json:"cached_tokens"`
	} `json:"prompt_tokens_details"`
}

func (w *work) usage() *usage {
	u := &usage{PromptTokens: len(w.prompt), CompletionTokens: w.made, TotalTokens: len(w.prompt) + w.made}
	u.Details.CachedTokens = w.cached
	return u
}

// answer is the envelope of every answer and chunk.
type answer struct {
	ID      string `json:"id"`
	Object  string `json:"object"`
	Created int64  `json:"created"`
	Model   string `json:"model"`
	Choices []any  `json:"choices"`
	Usage   *usage `json:"usage,omitempty"`
}

// dialect is the form in which one route says what was generated.
type dialect interface {
	token(first bool, text string) []any // choices of the chunks that carry a token
	last(reason string) any              // choice of the chunk that ends the answer
	whole(text, reason string) any       // choice of an answer that is not streamed
	names() (id, object, chunk string)
}

func chat(c *call) error {
	var req chatRequest
	if err := c.read(&req); err != nil {
		return err
	}
	if err := c.model(req.Model); err != nil {
		return err
	}
	if len(req.Messages) == 0 {
		return badRequest("messages must not be empty")
	}
	return c.answer(req.sampling, Tokenize(RenderChat(req.chat())), chatDialect{})
}

func complete(c *call) error {
	var req completionRequest
	if err := c.read(&req); err != nil {
		return err
	}
	if err := c.model(req.Model); err != nil {
		return err
	}
	if len(req.Prompt) != 1 {
		return badRequest("prompt: the simulated engine takes one prompt a request, not %d", len(req.Prompt))
	}
	return c.answer(req.sampling, req.Prompt[0], textDialect{})
}

// answer generates and writes, streamed or not.
func (c *call) answer(s sampling, prompt []int64, d dialect) error {
	w, err := c.plan(s, prompt)
	if err != nil {
		return err
	}
	if err := c.strike(0); err != nil {
		return err
	}
	leave, err := c.enqueue(w)
	if err != nil {
		return err
	}
	defer leave()
	id, object, chunk := d.names()
	a := answer{
		ID: fmt.Sprintf("%s-%08x", id, c.ids.Add(1)), Object: object,
		Created: time.Now().Unix(), Model: c.cfg.ServedNames[0],
	}
	if s.Stream {
		a.Object = chunk
		return c.stream(w, &stream{c: c, head: a, d: d, usage: s.StreamOptions.IncludeUsage})
	}
	return c.whole(w, a, d)
}

// whole writes an answer that is not streamed.
func (c *call) whole(w *work, a answer, d dialect) error {
	var text strings.Builder
	reason, err := c.generate(w, func(t string) error { text.WriteString(t); return nil })
	if err != nil {
		return err
	}
	a.Choices, a.Usage = []any{d.whole(text.String(), reason)}, w.usage()
	writeJSON(c.w, http.StatusOK, a)
	return nil
}

// stream writes server-sent events. The status and the headers go out at once,
// before the request has a slot, as vLLM's do.
func (c *call) stream(w *work, s *stream) error {
	c.w.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
	c.w.WriteHeader(http.StatusOK)
	if err := s.flush(); err != nil {
		return err
	}
	reason, err := c.generate(w, s.token)
	var failed *apiError
	if errors.As(err, &failed) { // too late for a status: an event, and [DONE] nevertheless, as vLLM's
		b, _ := json.Marshal(failed.body(c.fault.FlatErrors))
		return errors.Join(s.event(b), s.event(doneEvent), errEndEarly)
	}
	if err != nil {
		return err
	}
	return s.end(reason, w.usage())
}

type stream struct {
	c     *call
	head  answer
	d     dialect
	usage bool
	begun bool
}

var doneEvent = []byte("[DONE]")

func (s *stream) token(text string) error {
	choices := s.d.token(!s.begun, text)
	s.begun = true
	for _, choice := range choices {
		if err := s.chunk(nil, choice); err != nil {
			return err
		}
	}
	return nil
}

func (s *stream) end(reason string, u *usage) error {
	if err := s.chunk(nil, s.d.last(reason)); err != nil {
		return err
	}
	if s.usage {
		if err := s.chunk(u); err != nil {
			return err
		}
	}
	return s.event(doneEvent)
}

func (s *stream) chunk(u *usage, choices ...any) error {
	a := s.head
	a.Choices, a.Usage = choices, u
	if a.Choices == nil {
		a.Choices = []any{}
	}
	b, err := json.Marshal(a)
	if err != nil {
		return err
	}
	return s.event(b)
}

func (s *stream) event(data []byte) error {
	if _, err := fmt.Fprintf(s.c.w, "data: %s\n\n", data); err != nil {
		return s.c.gone(err)
	}
	return s.flush()
}

func (s *stream) flush() error {
	if err := http.NewResponseController(s.c.w).Flush(); err != nil && !errors.Is(err, http.ErrNotSupported) {
		return s.c.gone(err)
	}
	return nil
}
