package main

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"
)

const (
	chunks = 100 // of a stream
	chunk  = "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\" word\"}}]}\n\n"
)

var answer = []byte(`{"choices":[{"message":{"role":"assistant","content":"` + strings.Repeat("word ", 90) + `"}}]}`)

// upstream answers as an engine would that takes no time: whole, by a hundred events, or by one event and silence.
func upstream(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	switch {
	case bytes.Contains(body, []byte(`"idle":true`)):
		events(w, 1)
		<-r.Context().Done()
	case bytes.Contains(body, []byte(`"stream":true`)):
		events(w, chunks)
	default:
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write(answer)
	}
}

func events(w http.ResponseWriter, n int) {
	w.Header().Set("Content-Type", "text/event-stream")
	for range n {
		_, _ = io.WriteString(w, chunk)
		w.(http.Flusher).Flush()
	}
}

// body is a chat request of about a kilobyte, with more members before the messages.
func body(members string) string {
	return `{"model":"m",` + members + `"messages":[{"role":"user","content":"` + strings.Repeat("word ", 190) + `"}]}`
}

// longBody is a chat request of 100,000 tokens, about 400 KB, of which the half is its own.
func longBody(n int) string {
	return `{"model":"m","messages":[{"role":"user","content":"` + strings.Repeat("word ", 40_000) + strings.Repeat(fmt.Sprintf("w%d ", 1000+n), 200_000/6) + `"}]}`
}

func serve(addr string, h http.Handler) error {
	srv := &http.Server{Addr: addr, Handler: h, ReadHeaderTimeout: 5 * time.Second}
	return srv.ListenAndServe()
}
