package sim

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
)

// maxBody bounds what is read of a request.
const maxBody = 64 << 20

// sampling is what chat and completions have in common. Fields that change nothing
// here (temperature, tools, …) are ignored, as clients send many.
type sampling struct {
	Model         string `json:"model"`
	Stream        bool   `json:"stream"`
	StreamOptions struct {
		IncludeUsage bool `json:"include_usage"`
	} `json:"stream_options"`
	MaxTokens           *int `json:"max_tokens"`
	MaxCompletionTokens *int `json:"max_completion_tokens"`
	IgnoreEOS           bool `json:"ignore_eos"`
	N                   *int `json:"n"`
}

type chatRequest struct {
	sampling
	Messages []struct {
		Role    string  `json:"role"`
		Content content `json:"content"`
	} `json:"messages"`
}

func (r chatRequest) chat() []Message {
	out := make([]Message, len(r.Messages))
	for i, m := range r.Messages {
		out[i] = Message{m.Role, string(m.Content)}
	}
	return out
}

type completionRequest struct {
	sampling
	Prompt prompts `json:"prompt"`
}

type embeddingRequest struct {
	Model          string  `json:"model"`
	Input          prompts `json:"input"`
	EncodingFormat string  `json:"encoding_format"`
	Dimensions     int     `json:"dimensions"`
}

// content is a message's text: a string, or parts of which the text ones count.
type content string

func (c *content) UnmarshalJSON(b []byte) error {
	var s *string
	if json.Unmarshal(b, &s) == nil {
		if s != nil {
			*c = content(*s)
		}
		return nil
	}
	var parts []struct {
		Type, Text string
	}
	if err := json.Unmarshal(b, &parts); err != nil {
		return errors.New("content is neither a string nor a list of parts")
	}
	var text strings.Builder
	for _, p := range parts {
		text.WriteString(p.Text)
	}
	*c = content(text.String())
	return nil
}

// prompts are one or more inputs: a string, strings, tokens, or lists of tokens.
type prompts [][]int64

func (p *prompts) UnmarshalJSON(b []byte) error {
	var (
		one     string
		many    []string
		tokens  []int64
		batches [][]int64
	)
	switch {
	case json.Unmarshal(b, &one) == nil:
		*p = prompts{Tokenize(one)}
	case json.Unmarshal(b, &many) == nil:
		for _, s := range many {
			*p = append(*p, Tokenize(s))
		}
	case json.Unmarshal(b, &tokens) == nil:
		*p = prompts{tokens}
	case json.Unmarshal(b, &batches) == nil:
		*p = batches
	default:
		return errors.New("neither a string, nor strings, nor tokens, nor lists of tokens")
	}
	return nil
}

// read decodes the body into v. It reads the whole body: only then does the server
// see that a client has gone.
func (c *call) read(v any) error {
	b, err := io.ReadAll(http.MaxBytesReader(c.w, c.r.Body, maxBody))
	var tooLarge *http.MaxBytesError
	switch {
	case errors.As(err, &tooLarge):
		return &apiError{status: http.StatusRequestEntityTooLarge, kind: "BadRequestError", message: fmt.Sprintf("the body is over %d bytes", maxBody)}
	case err != nil:
		return c.gone(err)
	}
	var wrong *json.UnmarshalTypeError
	if err := json.Unmarshal(b, v); errors.As(err, &wrong) && wrong.Field != "" {
		return badRequest("the body is not a valid request: %s cannot be a %s", wrong.Field, wrong.Value) // Go's own text names types of this program
	} else if err != nil {
		return badRequest("the body is not a valid request: %v", err)
	}
	return nil
}

// model checks that name is served here; none means the first name.
func (c *call) model(name string) error {
	if name == "" {
		name = c.cfg.ServedNames[0]
	}
	c.ledger.update(func() { c.rec.Model = name })
	if !c.names[name] {
		return notFound("The model `%s` does not exist.", name)
	}
	return nil
}

// plan checks a generation request and makes its work.
func (c *call) plan(s sampling, prompt []int64) (*work, error) {
	text, err := Detokenize(prompt)
	if err != nil {
		return nil, badRequest("%v", err)
	}
	c.ledger.update(func() { c.rec.PromptHash, c.rec.PromptTokens = PromptHash(text), len(prompt) })
	if len(prompt) == 0 {
		return nil, badRequest("%v", errNoPrompt)
	}
	if s.N != nil && *s.N != 1 {
		return nil, badRequest("n is %d: the simulated engine makes one answer", *s.N)
	}
	room := c.cfg.MaxModelLen - len(prompt)
	limit := room
	for _, m := range []*int{s.MaxTokens, s.MaxCompletionTokens} {
		if m != nil {
			limit = *m
		}
	}
	if limit < 1 && room > 0 {
		return nil, badRequest("max_tokens must be at least 1, got %d.", limit)
	}
	if limit > room || room < 1 {
		return nil, badRequest("This model's maximum context length is %d tokens. However, you requested %d tokens (%d in the prompt, %d for the completion).",
			c.cfg.MaxModelLen, len(prompt)+limit, len(prompt), limit)
	}
	w := &work{prompt: prompt, limit: limit, natural: c.cfg.OutputTokens, arrived: c.arrived}
	if s.IgnoreEOS {
		w.natural = limit + 1 // never by itself
	}
	return w, nil
}
