package door_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"berth/fleet"
	"berth/fleet/wire"
)

func TestRoutes(t *testing.T) {
	reached := ""
	inBubble(t, func(w http.ResponseWriter, r *http.Request) { reached = r.Method + " " + r.URL.Path }, func(g *rig) {
		uses := uint64(0)
		for _, c := range []struct {
			ask    string
			passes bool
			counts bool
		}{
			{"POST /v1/chat/completions", true, true}, {"POST /v1/completions", true, true}, {"POST /v1/embeddings", true, true},
			{"POST /v1/responses", true, true}, {"GET /v1/responses/resp_1", true, true}, {"POST /v1/responses/resp_1/cancel", true, true},
			{"POST /v1/messages", true, true}, {"POST /v1/messages/count_tokens", true, true},
			{"POST /v1/rerank", true, true}, {"POST /rerank", true, true}, {"POST /v2/rerank", true, true},
			{"POST /v1/score", true, true}, {"POST /score", true, true}, {"POST /tokenize", true, true}, {"POST /detokenize", true, true},
			{"POST /v1/audio/transcriptions", true, true}, {"POST /v1/images/generations", true, true},
			{"POST /classify", true, true}, {"POST /pooling", true, true},
			{"GET /health", true, false}, {"HEAD /health", true, false}, {"GET /v1/models", true, false}, {"GET /v1/models/a/b:c", true, false},
			{"GET /metrics", true, false}, {"GET /version", true, false},
			{"GET /v1/chat/completions", false, false}, {"POST /health", false, false}, {"DELETE /v1/models/a", false, false},
			{"POST /sleep", false, false}, {"POST /wake_up", false, false}, {"POST /v1/load_lora_adapter", false, false},
			{"POST /reset_prefix_cache", false, false}, {"POST /collective_rpc", false, false}, {"POST /flush_cache", false, false},
			{"POST /release_memory_occupation", false, false}, {"GET /get_server_info", false, false}, {"POST /", false, false},
			{"POST /v1/audio/", false, false}, {"POST /v1/audio/../load_lora_adapter", false, false},
			{"POST /v1/audio/%2e%2e/load_lora_adapter", false, false}, {"POST /v1/audio/..%2fload_lora_adapter", false, false},
			{"POST //v1/completions", false, false}, {"POST /v1/completions/", false, false}, {"POST /v1/images/..%5c..%5csleep", false, false},
			{"OPTIONS /v1/chat/completions", false, false},
		} {
			method, path, _ := strings.Cut(c.ask, " ")
			reached = ""
			res, err := g.h1.Do(request(g.Context(), t, method, path, nil))
			if err != nil {
				t.Fatal(err)
			}
			res.Body.Close()
			if passed := reached != ""; passed != c.passes || !passed && (res.StatusCode != http.StatusNotFound || res.Header.Get(wire.HeaderDoor) != wire.DoorRoute) {
				t.Errorf("%s: passed %v, status %d, door %q", c.ask, passed, res.StatusCode, res.Header.Get(wire.HeaderDoor))
			}
			if c.counts {
				uses++
			}
			if got := g.gate.Reading().Admissions; got != uses {
				t.Fatalf("%s: %d uses, want %d", c.ask, got, uses)
			}
		}
	})
}

// TestRefusalsOnHeadersAlone sends headers and then nothing: the answer must come at once, in both protocols.
func TestRefusalsOnHeadersAlone(t *testing.T) {
	for why, want := range map[string]int{wire.DoorShut: 503, wire.DoorStarting: 503, wire.DoorWrongKey: 421, wire.DoorRoute: 404} {
		for _, proto := range []int{1, 2} {
			t.Run(fmt.Sprintf("%s over HTTP/%d", why, proto), func(t *testing.T) {
				inBubble(t, func(http.ResponseWriter, *http.Request) { t.Error("the engine was reached") }, func(g *rig) {
					body, client := never(), g.h1
					defer body.Close()
					if proto == 2 {
						client = g.h2
					}
					path := "/v1/completions"
					r := request(g.Context(), t, http.MethodPost, path, body)
					switch why {
					case wire.DoorShut:
						g.gate.Shut()
					case wire.DoorStarting:
						g.gate.Starting(2)
					case wire.DoorWrongKey:
						r.Header.Set(wire.HeaderReplicaKey, "another")
					case wire.DoorRoute:
						r.URL.Path = "/sleep"
					}
					began := time.Now()
					res, err := client.Do(r)
					if err != nil {
						t.Fatal(err)
					}
					defer res.Body.Close()
					var answer struct{ Error fleet.Error }
					if err := json.NewDecoder(res.Body).Decode(&answer); err != nil {
						t.Error(err)
					}
					if took := time.Since(began); took > 100*time.Millisecond {
						t.Errorf("the refusal took %v", took)
					}
					if res.StatusCode != want || res.Header.Get(wire.HeaderDoor) != why || res.Header.Get("Retry-After") == "" || answer.Error.Code != fleet.NotReady {
						t.Errorf("status %d, header %v, error %+v", res.StatusCode, res.Header, answer.Error)
					}
					if r := g.gate.Reading(); r.Admissions != 0 || r.UseAge != nil {
						t.Errorf("a refusal was counted: %+v", r)
					}
				})
			})
		}
	}
}

// never is a body that does not come.
func never() *io.PipeReader {
	r, _ := io.Pipe()
	return r
}

func TestExpectContinueIsRefusedBeforeTheBody(t *testing.T) {
	inBubble(t, nil, func(g *rig) {
		g.gate.Shut()
		c := g.dial()
		defer c.Close()
		fmt.Fprintf(c, "POST /v1/completions HTTP/1.1\r\nHost: x\r\n%s: %s\r\nContent-Length: 5\r\nExpect: 100-continue\r\n\r\n", wire.HeaderReplicaKey, key)
		res, err := http.ReadResponse(bufio.NewReader(c), nil)
		if err != nil || res.StatusCode != http.StatusServiceUnavailable {
			t.Errorf("%v, %v: want 503 and not 100", res, err)
		}
	})
}

// An engine that cannot be reached has seen nothing of the request, so the door may say so.
func TestEngineNotThere(t *testing.T) {
	inBubble(t, nil, func(g *rig) {
		res, err := g.h1.Do(request(g.Context(), t, http.MethodPost, "/v1/completions", strings.NewReader("{}")))
		if err != nil {
			t.Fatal(err)
		}
		res.Body.Close()
		if res.StatusCode != 503 || res.Header.Get(wire.HeaderDoor) != wire.DoorStarting {
			t.Errorf("status %d, door %q", res.StatusCode, res.Header.Get(wire.HeaderDoor))
		}
		g.idle(1)
	})
}

func TestEachStreamIsAdmittedSingly(t *testing.T) {
	inBubble(t, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		select {
		case <-time.After(time.Minute):
		case <-r.Context().Done():
		}
	}, func(g *rig) {
		results := make(chan int, 3)
		post := func() {
			res, err := g.h2.Do(request(g.Context(), t, http.MethodPost, "/v1/completions", strings.NewReader("{}")))
			if err != nil {
				t.Error(err)
				results <- 0
				return
			}
			res.Body.Close()
			results <- res.StatusCode
		}
		go post()
		go post()
		synctest.Wait()
		if n := g.gate.InFlight(); n != 2 {
			t.Errorf("%d in flight on one connection, want 2", n)
		}
		g.gate.Shut()
		post()
		if got := <-results; got != 503 {
			t.Errorf("a new stream on the old connection of a shut door: %d", got)
		}
		if a, b := <-results, <-results; a != 200 || b != 200 {
			t.Errorf("the streams before: %d, %d", a, b)
		}
		g.idle(2)
	})
}
