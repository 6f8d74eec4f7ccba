package door_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"berth/fleet/wire"
)

// C16: headers go out when the engine sends them, and each write of its on arrival, whatever the content type.
func TestFlushOnArrival(t *testing.T) {
	for _, kind := range []string{"text/event-stream", "text/event-stream; charset=utf-8", "application/x-ndjson", ""} {
		for _, length := range []string{"", "300"} {
			t.Run(kind+" length "+length, func(t *testing.T) {
				inBubble(t, func(w http.ResponseWriter, r *http.Request) {
					w.Header()["Content-Type"] = nil
					if kind != "" {
						w.Header().Set("Content-Type", kind)
					}
					if length != "" {
						w.Header().Set("Content-Length", length)
					}
					w.WriteHeader(http.StatusOK)
					out := http.NewResponseController(w)
					_ = out.Flush()
					time.Sleep(5*time.Second - 200*time.Millisecond)
					for i := range 20 {
						time.Sleep(200 * time.Millisecond)
						fmt.Fprintf(w, "data: %07d\n\n", i)
						_ = out.Flush()
					}
				}, func(g *rig) {
					for _, client := range []*http.Client{g.h1, g.h2} {
						began := time.Now()
						res, err := client.Do(request(g.Context(), t, http.MethodPost, "/v1/completions", strings.NewReader("{}")))
						if err != nil {
							t.Fatal(err)
						}
						if took := time.Since(began); took > 50*time.Millisecond {
							t.Errorf("headers after %v", took)
						}
						for i := range 20 {
							if _, err := io.ReadFull(res.Body, make([]byte, 15)); err != nil {
								t.Fatal(err)
							}
							if late := time.Since(began) - 5*time.Second - time.Duration(i)*200*time.Millisecond; late < 0 || late > 50*time.Millisecond {
								t.Errorf("chunk %d came %v late", i, late)
							}
						}
						_, _ = io.Copy(io.Discard, res.Body)
						res.Body.Close()
					}
					g.idle(2)
				})
			})
		}
	}
}

// C14: a client that goes away cancels the engine's work, in all phases and both protocols.
func TestClientGone(t *testing.T) {
	phases := map[string]func(http.ResponseWriter, *http.Request){
		"before headers": func(http.ResponseWriter, *http.Request) {},
		"while a known length is computed": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "100")
			_ = http.NewResponseController(w).Flush()
		},
		"mid-stream": func(w http.ResponseWriter, _ *http.Request) {
			fmt.Fprint(w, "data: 1\n\n")
			_ = http.NewResponseController(w).Flush()
		},
	}
	for name, reach := range phases {
		for proto := 1; proto <= 2; proto++ {
			t.Run(fmt.Sprintf("%s over HTTP/%d", name, proto), func(t *testing.T) {
				aborted := make(chan time.Time, 1)
				inBubble(t, func(w http.ResponseWriter, r *http.Request) {
					_, _ = io.Copy(io.Discard, r.Body)
					reach(w, r)
					<-r.Context().Done()
					aborted <- time.Now()
				}, func(g *rig) {
					client := map[int]*http.Client{1: g.h1, 2: g.h2}[proto]
					ctx, leave := context.WithCancel(g.Context())
					defer leave()
					time.AfterFunc(3*time.Second, leave)
					res, err := client.Do(request(ctx, t, http.MethodPost, "/v1/completions", strings.NewReader("{}")))
					if err == nil {
						_, err = io.Copy(io.Discard, res.Body)
						res.Body.Close()
					}
					if !errors.Is(err, context.Canceled) {
						t.Errorf("the client ended with %v", err)
					}
					left := time.Now()
					synctest.Wait()
					select {
					case at := <-aborted:
						if at.Sub(left) > 2*time.Second {
							t.Errorf("the engine noticed after %v", at.Sub(left))
						}
					default:
						t.Error("the engine works on")
					}
					g.idle(1)
				})
			})
		}
	}
}

// C18: bodies, encodings, lengths and trailers come through as they are; hop-by-hop headers and the door's own do not.
func TestFaithful(t *testing.T) {
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	fmt.Fprint(z, `{"choices":[]}`)
	z.Close()
	sse := "event: delta\nid: 7\ndata: {}\n\n: a comment\n\ndata: [DONE]\n\n"
	var seen atomic.Pointer[http.Request]
	engine := func(w http.ResponseWriter, r *http.Request) {
		seen.Store(r)
		body, _ := io.ReadAll(r.Body)
		h := w.Header()
		h.Set(wire.HeaderDoor, "shut") // no engine speaks as the door
		switch string(body) {
		case "gzip":
			h.Set("Content-Encoding", "gzip")
			h.Set("Content-Length", fmt.Sprint(packed.Len()))
			w.Write(packed.Bytes())
		case "sse":
			h.Set("Content-Type", "text/event-stream")
			h.Set("Keep-Alive", "timeout=5")
			h.Set("Connection", "X-Private")
			h.Set("X-Private", "1")
			io.WriteString(w, sse)
		case "trailer":
			h.Set("Trailer", "X-Usage, "+wire.HeaderDoor)
			io.WriteString(w, "chunked")
			h.Set("X-Usage", "7")
			h.Set(http.TrailerPrefix+"X-Late", "8")
		}
	}
	inBubble(t, engine, func(g *rig) {
		for _, client := range []*http.Client{g.h1, g.h2} {
			for body, want := range map[string]string{"gzip": packed.String(), "sse": sse, "trailer": "chunked"} {
				r := request(g.Context(), t, http.MethodPost, "/v1/completions", strings.NewReader(body))
				r.Header.Set("Accept-Encoding", "gzip")
				r.Header.Set("X-Request-Id", "abc")
				r.Header.Set("Te", "trailers")
				if client == g.h1 { // HTTP/2 knows no Connection header
					r.Header.Set("Connection", "X-Hop")
					r.Header.Set("X-Hop", "1")
					r.Header.Set("Upgrade", "websocket")
				}
				res, err := client.Do(r)
				if err != nil {
					t.Fatal(err)
				}
				got, err := io.ReadAll(res.Body)
				res.Body.Close()
				if err != nil || string(got) != want {
					t.Errorf("%s: body %q, %v", body, got, err)
				}
				for _, name := range []string{wire.HeaderDoor, "Keep-Alive", "X-Private"} {
					if res.Header.Get(name) != "" || res.Trailer.Get(name) != "" {
						t.Errorf("%s: %s came through", body, name)
					}
				}
				if body == "gzip" && (res.Header.Get("Content-Encoding") != "gzip" || res.ContentLength != int64(packed.Len())) {
					t.Errorf("gzip: %v, length %d", res.Header, res.ContentLength)
				}
				if body == "trailer" && (res.Trailer.Get("X-Usage") != "7" || res.Trailer.Get("X-Late") != "8") {
					t.Errorf("trailers %v", res.Trailer)
				}
				at := seen.Load().Header
				if at.Get("X-Request-Id") != "abc" || at.Get("Accept-Encoding") != "gzip" || at.Get("Te") != "trailers" {
					t.Errorf("%s: the engine saw %v", body, at)
				}
				for _, name := range []string{wire.HeaderReplicaKey, "X-Hop", "Upgrade", "Connection", "X-Forwarded-For"} {
					if at.Get(name) != "" {
						t.Errorf("%s: %s reached the engine", body, name)
					}
				}
			}
		}
	})
}

// C05: every use ends exactly once, however it ends.
func TestFiftyEndings(t *testing.T) {
	engine := func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		switch string(body) {
		case "finish":
			fmt.Fprint(w, "whole")
		case "leave early":
			<-r.Context().Done()
		case "leave mid-stream":
			fmt.Fprint(w, "data: 1\n\n")
			_ = http.NewResponseController(w).Flush()
			<-r.Context().Done()
		case "reset before":
			panic(http.ErrAbortHandler)
		case "reset mid-stream":
			fmt.Fprint(w, "data: 1\n\n")
			_ = http.NewResponseController(w).Flush()
			panic(http.ErrAbortHandler)
		case "error":
			w.WriteHeader(http.StatusInternalServerError)
		}
	}
	inBubble(t, engine, func(g *rig) {
		var all sync.WaitGroup
		kinds := []string{"finish", "leave early", "leave mid-stream", "reset before", "reset mid-stream", "error"}
		for i := range 60 {
			all.Go(func() {
				ctx, leave := context.WithCancel(g.Context())
				defer leave()
				kind, client := kinds[i%len(kinds)], g.h1
				if i/len(kinds)%2 == 1 {
					client = g.h2
				}
				if strings.HasPrefix(kind, "leave") {
					defer time.AfterFunc(time.Duration(1+i)*10*time.Millisecond, leave).Stop()
				}
				res, err := client.Do(request(ctx, t, http.MethodPost, "/v1/completions", strings.NewReader(kind)))
				if err == nil {
					_, err = io.Copy(io.Discard, res.Body)
					res.Body.Close()
				}
				switch kind {
				case "finish", "error":
					if err != nil {
						t.Errorf("%s: %v", kind, err)
					}
				case "reset before":
					if err != nil || res.StatusCode != http.StatusBadGateway || res.Header.Get(wire.HeaderDoor) != "" {
						t.Errorf("%s: %v, %v", kind, res, err)
					}
				default: // never a clean end
					if err == nil {
						t.Errorf("%s ended as if whole", kind)
					}
				}
			})
		}
		synctest.Wait()
		if n := g.gate.InFlight(); n != 20 {
			t.Errorf("%d in flight while twenty clients wait", n)
		}
		all.Wait()
		g.idle(60)
	})
}

func TestUseEndsWithTheLastByte(t *testing.T) {
	inBubble(t, func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprint(w, "data: 1\n\n")
		_ = http.NewResponseController(w).Flush()
		time.Sleep(time.Minute)
	}, func(g *rig) {
		res, err := g.h1.Do(request(g.Context(), t, http.MethodPost, "/v1/completions", strings.NewReader("{}")))
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		time.Sleep(30 * time.Second)
		if r := g.gate.Reading(); r.InFlight != 1 || *r.UseAge != 30 {
			t.Errorf("half way: %+v", r)
		}
		_, _ = io.Copy(io.Discard, res.Body)
		g.idle(1)
		if r := g.gate.Reading(); *r.UseAge != 0 {
			t.Errorf("at the end: the newest use is %v s old", *r.UseAge)
		}
	})
}
