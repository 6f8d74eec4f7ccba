// Package chat is a small client of OpenAI's chat completions: it reads a stream of server-sent events token by token and tells a whole answer
// from one that was cut. The demonstrations use it so that nothing stands between them and the bytes; it knows nothing of Berth.
package chat

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
)

// ErrCut is the error of a stream that ended before [DONE].
var ErrCut = errors.New("the stream ended before [DONE]")

// Request is what a client asks for.
type Request struct {
	Model     string
	Prompt    string
	MaxTokens int
	// IgnoreEOS asks for exactly MaxTokens tokens, as vLLM and its likes understand it.
	IgnoreEOS bool
}

// Error is an answer that is not a stream: OpenAI's error shape, or what came instead.
type Error struct {
	Status  int
	Message string `json:"message"`
	Type    string `json:"type"`
	Code    any    `json:"code"`
}

func (e *Error) Error() string { return fmt.Sprintf("status %d, %s: %s", e.Status, e.Type, e.Message) }

// Stream is one answer that is being read. It is for one goroutine.
type Stream struct {
	// Tokens counts the events with text; Usage is what the engine says it made, once the stream is over (-1: not said).
	Tokens, Usage int
	Finish        string // why it ended: stop, length

	body  io.ReadCloser
	lines *bufio.Scanner
}

// Open asks for a streamed answer. base is a router's URL. The context holds for the whole stream.
func Open(ctx context.Context, base string, r Request) (*Stream, error) {
	body, err := json.Marshal(map[string]any{
		"model": r.Model, "max_tokens": r.MaxTokens, "ignore_eos": r.IgnoreEOS, "stream": true,
		"stream_options": map[string]bool{"include_usage": true},
		"messages":       []map[string]string{{"role": "user", "content": r.Prompt}},
	})
	if err != nil {
		return nil, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, base+"/v1/chat/completions", bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, err
	}
	if res.StatusCode != http.StatusOK {
		defer res.Body.Close()
		return nil, refusal(res)
	}
	s := &Stream{Usage: -1, body: res.Body, lines: bufio.NewScanner(res.Body)}
	s.lines.Buffer(nil, 1<<20)
	return s, nil
}

func refusal(res *http.Response) error {
	text, _ := io.ReadAll(io.LimitReader(res.Body, 1<<16)) // whatever came is said
	var shape struct{ Error Error }
	if err := json.Unmarshal(text, &shape); err != nil || shape.Error.Message == "" {
		shape.Error.Message = strings.TrimSpace(string(text))
	}
	shape.Error.Status = res.StatusCode
	return &shape.Error
}

// chunk is one event of the stream.
type chunk struct {
	Error   *Error
	Choices []struct {
		Delta        struct{ Content string }
		FinishReason string `json:"finish_reason"`
	}
	Usage *struct {
		CompletionTokens int `json:"completion_tokens"`
	}
}

// Next returns the next piece of text. It returns io.EOF after [DONE], ErrCut when the stream ends without, and an *Error that came as an event.
func (s *Stream) Next() (string, error) {
	for s.lines.Scan() {
		data, ok := strings.CutPrefix(s.lines.Text(), "data: ")
		if !ok { // a comment that keeps the connection alive, or the empty line after an event
			continue
		}
		if data == "[DONE]" {
			return "", io.EOF
		}
		var c chunk
		if err := json.Unmarshal([]byte(data), &c); err != nil {
			return "", fmt.Errorf("an event that is not JSON: %w", err)
		}
		text, err := s.take(c)
		if text != "" || err != nil {
			return text, err
		}
	}
	return "", errors.Join(ErrCut, s.lines.Err())
}

func (s *Stream) take(c chunk) (string, error) {
	if c.Error != nil {
		return "", c.Error
	}
	if c.Usage != nil {
		s.Usage = c.Usage.CompletionTokens
	}
	if len(c.Choices) == 0 {
		return "", nil
	}
	if r := c.Choices[0].FinishReason; r != "" {
		s.Finish = r
	}
	text := c.Choices[0].Delta.Content
	if text != "" {
		s.Tokens++
	}
	return text, nil
}

// Read reads until n tokens have come in all.
func (s *Stream) Read(n int) error {
	for s.Tokens < n {
		if _, err := s.Next(); err != nil {
			return fmt.Errorf("after %d of %d tokens: %w", s.Tokens, n, err)
		}
	}
	return nil
}

// Rest reads to the end. It fails unless the stream ended whole: by [DONE], with a reason.
func (s *Stream) Rest() (text string, err error) {
	defer s.Close()
	var out strings.Builder
	for {
		piece, err := s.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return out.String(), fmt.Errorf("after %d tokens: %w", s.Tokens, err)
		}
		out.WriteString(piece)
	}
	if s.Finish == "" {
		return out.String(), fmt.Errorf("[DONE] after %d tokens without a reason", s.Tokens)
	}
	return out.String(), nil
}

// Close gives the stream up.
func (s *Stream) Close() { _ = s.body.Close() }
