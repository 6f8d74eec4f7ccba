package router

import (
	"errors"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"

	"berth/agent/engine/sim"
	"berth/fleet/wire"
)

// simulated serves a simulated engine.
func (c *cluster) simulated(id, host string, change func(*sim.Config)) wire.Endpoint {
	c.Helper()
	config := sim.Config{Model: "acme/Qwen-X:Q4", TokensPerSecond: 20, OutputTokens: 10}
	if change != nil {
		change(&config)
	}
	e, err := sim.New(config)
	if err != nil {
		c.Fatal(err)
	}
	return c.engine(id, host, e.ServeHTTP)
}

func (c *cluster) openai(opts ...option.RequestOption) openai.Client {
	return openai.NewClient(append([]option.RequestOption{option.WithBaseURL(base + "/v1"), option.WithAPIKey("k"),
		option.WithHTTPClient(c.client)}, opts...)...)
}

func chat(model string) openai.ChatCompletionNewParams {
	return openai.ChatCompletionNewParams{Model: model, Messages: []openai.ChatCompletionMessageParamUnion{openai.UserMessage("Say something.")}}
}

func TestOfficialClient(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, nil)
		c.set(model("acme/Qwen-X:Q4", c.simulated("a", "10.0.0.1", nil)))
		client := c.openai()
		whole, err := client.Chat.Completions.New(t.Context(), chat("acme/Qwen-X:Q4"))
		if err != nil || len(whole.Choices) != 1 || whole.Choices[0].Message.Content == "" || whole.Usage.CompletionTokens != 10 {
			t.Errorf("chat: %v %+v", err, whole)
		}
		stream := client.Chat.Completions.NewStreaming(t.Context(), chat("acme/Qwen-X:Q4"))
		var text strings.Builder
		for stream.Next() {
			for _, choice := range stream.Current().Choices {
				text.WriteString(choice.Delta.Content)
			}
		}
		if stream.Err() != nil || text.String() != whole.Choices[0].Message.Content {
			t.Errorf("stream: %v %q, want %q", stream.Err(), text.String(), whole.Choices[0].Message.Content)
		}
		list, err := client.Models.List(t.Context())
		if err != nil || len(list.Data) != 1 || list.Data[0].ID != "acme/Qwen-X:Q4" {
			t.Errorf("models: %v %+v", err, list)
		}
		one, err := client.Models.Get(t.Context(), "acme/Qwen-X:Q4")
		if err != nil || one.ID != "acme/Qwen-X:Q4" || one.Created != 1700000000 {
			t.Errorf("model: %v %+v", err, one)
		}
		vectors, err := client.Embeddings.New(t.Context(), openai.EmbeddingNewParams{Model: "acme/Qwen-X:Q4",
			Input: openai.EmbeddingNewParamsInputUnion{OfArrayOfStrings: []string{"a", "b"}}})
		if err != nil || len(vectors.Data) != 2 || len(vectors.Data[0].Embedding) != 64 {
			t.Errorf("embeddings: %v %+v", err, vectors)
		}
		_, err = client.Chat.Completions.New(t.Context(), chat("acme/qwen-x:q4"))
		var apiErr *openai.Error
		if !errors.As(err, &apiErr) || apiErr.StatusCode != 404 || apiErr.Code != "model_not_found" || apiErr.Param != "model" || apiErr.Type != "invalid_request_error" {
			t.Errorf("unknown model: %v", err)
		}
		c.settled("a")
	})
}

// TestOfficialClientReadsAnyEnginesErrors: flat errors, for which the client would find no field at all, arrive nested.
func TestOfficialClientReadsAnyEnginesErrors(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, nil)
		c.set(model("acme/Qwen-X:Q4", c.simulated("a", "10.0.0.1", func(s *sim.Config) { s.MaxModelLen, s.Fault.FlatErrors = 8, true })))
		client := c.openai()
		_, err := client.Chat.Completions.New(t.Context(), chat("acme/Qwen-X:Q4"))
		var apiErr *openai.Error
		if !errors.As(err, &apiErr) || apiErr.StatusCode != 400 || apiErr.Message == "" || apiErr.Type != "invalid_request_error" {
			t.Errorf("%v", err)
		}
	})
}

func TestOfficialClientThroughEngineDeath(t *testing.T) {
	fault := func(after int, how string) func(*sim.Config) {
		return func(s *sim.Config) { s.Fault.Stream = &sim.StreamFault{After: after, How: how} }
	}
	t.Run("before the first byte nobody knows", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			c := newCluster(t, nil)
			dying := c.engine("a", "10.0.0.1", func(_ http.ResponseWriter, r *http.Request) {
				_, _ = io.Copy(io.Discard, r.Body)
				time.Sleep(time.Second)
				panic(http.ErrAbortHandler)
			})
			c.set(model("acme/Qwen-X:Q4", dying, c.simulated("b", "10.0.0.2", nil)))
			client := c.openai(option.WithMaxRetries(0))
			for range 10 {
				if whole, err := client.Chat.Completions.New(t.Context(), chat("acme/Qwen-X:Q4")); err != nil || whole.Usage.CompletionTokens != 10 {
					t.Errorf("%v %+v", err, whole)
				}
			}
		})
	})
	t.Run("after it the stream fails", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			c := newCluster(t, nil)
			c.set(model("acme/Qwen-X:Q4", c.simulated("a", "10.0.0.1", fault(4, "reset")), c.simulated("b", "10.0.0.2", fault(4, "reset"))))
			client := c.openai()
			stream := client.Chat.Completions.NewStreaming(t.Context(), chat("acme/Qwen-X:Q4"))
			chunks := 0
			for stream.Next() {
				chunks++
			}
			if chunks < 4 || stream.Err() == nil || !strings.Contains(stream.Err().Error(), "broke off") {
				t.Errorf("%d chunks, %v", chunks, stream.Err())
			}
			c.settled("a")
			c.settled("b")
		})
	})
	t.Run("with no other replica the client's own retry helps", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			c := newCluster(t, nil)
			var calls atomic.Int64
			e, err := sim.New(sim.Config{Model: "m"})
			if err != nil {
				t.Fatal(err)
			}
			c.set(model("m", c.engine("a", "10.0.0.1", func(w http.ResponseWriter, r *http.Request) {
				if calls.Add(1) == 1 {
					reset(w, r)
				}
				e.ServeHTTP(w, r)
			})))
			client := c.openai()
			start := time.Now()
			if _, err := client.Chat.Completions.New(t.Context(), chat("m")); err != nil || calls.Load() != 2 || time.Since(start) < time.Second {
				t.Errorf("%v in %d calls after %v", err, calls.Load(), time.Since(start))
			}
		})
	})
}

// TestOfficialClientWakesAModel: the comments that keep a waiting stream alive do not disturb the client.
func TestOfficialClientWakesAModel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, nil)
		c.set(model("acme/Qwen-X:Q4"))
		time.AfterFunc(40*time.Second, func() { c.peers.set(model("acme/Qwen-X:Q4", c.simulated("a", "10.0.0.1", nil))) })
		client := c.openai()
		stream := client.Chat.Completions.NewStreaming(t.Context(), chat("acme/Qwen-X:Q4"))
		chunks := 0
		for stream.Next() {
			chunks++
		}
		if stream.Err() != nil || chunks < 10 {
			t.Errorf("%d chunks, %v", chunks, stream.Err())
		}
	})
}
